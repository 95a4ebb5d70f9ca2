"""The commands end to end, as library functions."""
