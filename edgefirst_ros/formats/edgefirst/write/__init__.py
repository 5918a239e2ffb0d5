"""Samples to EdgeFirst datasets."""
