"""One file per agent and its forks, or several files with a common prefix; table.py lists the agents."""
