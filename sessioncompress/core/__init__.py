"""Bytes, lines and values: what knows no agent, no policy and no disk."""
