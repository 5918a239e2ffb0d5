"""A drive with known ground truth, as a Maivin recording."""
