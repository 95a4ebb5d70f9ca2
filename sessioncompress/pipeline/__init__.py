"""One run over one session: read, protect, plan, rewrite, check."""
