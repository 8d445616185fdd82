"""Everything that storagelab knows about PostgreSQL, one module for each purpose."""
