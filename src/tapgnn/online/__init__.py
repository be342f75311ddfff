"""The live engine, its journal, and the server around them."""
