"""Campaigns that their owners share: what is left of one without names, which may be compared, and their pages."""
