"""All code for PostgreSQL. Each purpose has its own module."""
