"""The cost of storagelab itself, as medians of paired ratios measured in one run: `make bench`."""
