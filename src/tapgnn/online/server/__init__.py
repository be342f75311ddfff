"""The server: one process that owns a live engine, its HTTP interface, and the page to watch it."""
