"""Results for programs: JSON and CSV."""
