"""The common parts of all charts: layout, appearance and drawing."""
