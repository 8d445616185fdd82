"""All code for SQL Server. It has not yet been run on a live server: see docs/how-to/sql-server.md."""
