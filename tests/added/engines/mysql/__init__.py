"""MySQL 8, a flavour of MariaDB."""
