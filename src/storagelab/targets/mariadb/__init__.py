"""All that storagelab knows of MariaDB, and of MySQL 8 where it already runs, a room each."""
