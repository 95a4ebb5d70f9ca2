"""Tests of what lies beside a session and of the order in which anything reaches the disk."""
