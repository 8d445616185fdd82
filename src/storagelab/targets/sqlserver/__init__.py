"""Everything that storagelab knows about SQL Server, not yet tried on a live server: see docs/how-to/sql-server.md."""
