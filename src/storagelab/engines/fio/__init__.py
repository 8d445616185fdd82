"""fio's raw I/O on the drives of this machine, as a separate engine and beside a database."""
