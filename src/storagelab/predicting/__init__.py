"""What a server would do on other volumes or with another layout, reckoned from a capture of it."""
