"""This machine: its properties, its kernel's counters, and what it can measure."""
