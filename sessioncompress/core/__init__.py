"""Bytes, lines and values; nothing here depends on an agent, a policy or the disk."""

VERSION = "1.1.0"
