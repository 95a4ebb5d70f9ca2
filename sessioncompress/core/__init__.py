"""Bytes, lines and values: what knows no agent, no policy and no disk."""

VERSION = "1.0.0"
