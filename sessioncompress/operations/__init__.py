"""A command end to end, as the library gives it."""
