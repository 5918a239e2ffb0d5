"""What can be verified about L5Kit datasets."""
