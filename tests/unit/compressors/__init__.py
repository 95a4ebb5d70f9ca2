"""Tests of the compressors, one module each."""
