"""Statistics of campaigns: makes estimates from logarithms of times. Pure. The package uses cells and rounds, and
nothing about storage.
"""
