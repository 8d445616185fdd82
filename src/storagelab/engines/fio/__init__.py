"""Raw I/O on this machine's drives by fio, as a separate engine and beside a database."""
