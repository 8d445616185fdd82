"""Turns findings into sentences, tables, charts and an HTML page. Only this package formats results."""
