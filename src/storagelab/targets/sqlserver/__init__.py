"""Everything that storagelab knows about SQL Server. It has not met a live server yet: see docs/how-to/sql-server.md."""
