"""Checkpoints: the summary of the old part of a session, made without a model."""
