"""This machine: its properties, its kernel's counters, and its abilities to measure."""
