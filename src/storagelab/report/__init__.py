"""Findings -> sentences, tables, charts, one HTML page. The only place that formats anything."""
