"""MariaDB, and MySQL 8 where it already runs: all that storagelab knows of them."""
