"""Statistics of campaigns: from log times to estimates. Pure; knows cells and rounds, and nothing of storage."""
