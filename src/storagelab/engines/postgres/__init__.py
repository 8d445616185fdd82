"""All code for PostgreSQL, one module for each purpose."""
