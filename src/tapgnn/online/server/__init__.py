"""The server: one process with a live engine, its HTTP interface and its page."""
