"""Measures the cost of storagelab itself: medians of paired ratios from one run of `make bench`."""
