"""How PostgreSQL makes the tables of each load: a module for each."""
