"""All that storagelab knows of SQL Server, a room each. It has not met a live server yet: see docs/how-to/sql-server.md."""
