"""What storagelab itself costs, as medians of paired ratios measured in one run: `make bench`."""
