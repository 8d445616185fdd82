"""What storagelab itself costs, as medians of paired ratios taken in one run: `make bench`."""
