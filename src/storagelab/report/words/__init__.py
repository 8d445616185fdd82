"""Writes findings as text: names, numbers with their units, and sentences."""
