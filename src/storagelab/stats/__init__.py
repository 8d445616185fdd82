"""Statistics of campaigns: from log times to estimates. Pure. The package knows cells and rounds, but not storage."""
