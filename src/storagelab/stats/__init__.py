"""Statistics of campaigns: from log times to estimates. Pure. It knows cells and rounds, but not storage."""
