"""Findings in words: names, numbers with their units, sentences."""
