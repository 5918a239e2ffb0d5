"""Measurements to NCore V4 sequences."""
