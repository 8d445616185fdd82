"""Raw I/O on this machine's drives by fio, as an engine of its own and beside a database."""
