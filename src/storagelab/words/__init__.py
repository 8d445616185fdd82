"""Formats names and figures as text for findings, reports and verbs. The functions are pure."""
