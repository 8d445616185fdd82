"""What is measured: servers, raw I/O and simulated drives."""
