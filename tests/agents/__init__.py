"""Resumes rewritten sessions with the real agents, against a stand-in for the model APIs on loopback."""
