"""Makes a report into one HTML page."""
