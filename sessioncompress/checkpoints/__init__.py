"""Checkpoints: the cut of a session, and the summary that replaces its old part."""
