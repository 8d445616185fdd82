"""A report as one HTML page."""
