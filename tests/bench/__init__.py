"""Benchmarks, and the large sessions they run on."""
