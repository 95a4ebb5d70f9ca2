"""Claude Code: how its sessions are read, what its screen shows, and what may change."""
