"""Tests of what agents call, a module each."""
