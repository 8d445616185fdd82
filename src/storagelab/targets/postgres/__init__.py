"""All that storagelab knows of PostgreSQL, a room each."""
