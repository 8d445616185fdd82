"""How PostgreSQL makes the tables of each load; one module for each load."""
