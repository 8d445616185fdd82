"""How MariaDB makes the tables of each load: a module for each."""
