"""Each agent in a file or a folder; table.py lists them."""
