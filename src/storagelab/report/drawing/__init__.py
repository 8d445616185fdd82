"""What all charts share: layout, appearance and drawing."""
