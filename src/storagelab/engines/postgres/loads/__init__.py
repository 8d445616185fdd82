"""How PostgreSQL makes the tables of each load. Each load has its own module."""
