"""Everything that storagelab knows about SQL Server. It has not been tried on a live server yet: see docs/how-to/sql-server.md."""
