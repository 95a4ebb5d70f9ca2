"""Checkpoints: where a session is cut, and the summary that takes the place of its old part."""
