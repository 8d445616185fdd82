"""Everything that storagelab knows about SQL Server. Not yet tried on a live server: see docs/how-to/sql-server.md."""
