"""Tests of the summaries that are made without a model."""
