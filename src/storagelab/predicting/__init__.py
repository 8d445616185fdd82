"""Predicts a server's throughput on other volumes or with another layout from a capture of this server."""
