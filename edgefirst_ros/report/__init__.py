"""What is said of a drive: the one diagnosis, and its renderings."""
