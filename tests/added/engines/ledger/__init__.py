"""An engine that nobody has: rows in a file of SQLite."""
