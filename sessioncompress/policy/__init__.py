"""What a user asks for: the keys, their values, and where a policy is found."""
