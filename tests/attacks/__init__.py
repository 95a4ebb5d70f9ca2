"""Attacks that once worked, each as a user would meet it."""
