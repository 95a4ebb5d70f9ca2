"""Codex: how its rollouts are read, and what may change."""
