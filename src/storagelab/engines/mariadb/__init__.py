"""Everything that storagelab knows about MariaDB, and about running servers of MySQL 8, one module for each purpose."""
