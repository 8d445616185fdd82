"""What all charts share: layout, look and drawing."""
