"""What can be verified about EdgeFirst datasets."""
