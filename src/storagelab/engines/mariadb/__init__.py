"""All code for MariaDB and for running servers of MySQL 8, one module for each purpose."""
