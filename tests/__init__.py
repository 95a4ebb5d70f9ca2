"""Tests of sessioncompress, and the synthetic sessions they run on."""
