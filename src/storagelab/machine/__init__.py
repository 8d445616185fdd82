"""This machine: what it is, what its kernel counts, and what it can measure."""
