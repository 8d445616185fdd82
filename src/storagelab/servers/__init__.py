"""Servers that runs are made on: private, attached, or with a template's data."""
