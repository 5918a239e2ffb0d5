"""Samples to L5Kit datasets."""
