"""The servers on which runs are made: private, private with a template's data, or attached."""
