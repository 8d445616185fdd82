"""All code for MariaDB, and for MySQL 8 servers that already run. Each purpose has its own module."""
