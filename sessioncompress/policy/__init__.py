"""The user's choices: the keys, their values, and the search for a policy."""
