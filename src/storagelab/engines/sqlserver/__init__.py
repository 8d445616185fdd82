"""Everything that storagelab knows about SQL Server. This code has not yet run on a live server: see
docs/how-to/sql-server.md.
"""
