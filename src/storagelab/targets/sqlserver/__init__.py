"""All that storagelab knows of SQL Server, a room each. It has not met a live server yet: see docs/sqlserver.md."""
