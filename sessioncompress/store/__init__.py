"""What lies beside a session, and the order in which anything reaches the disk."""
