"""Each agent, with its relatives, in a file, or in several whose names begin alike; table.py lists them."""
