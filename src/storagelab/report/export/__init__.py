"""Writes results for other programs, as JSON, CSV and SQLite."""
