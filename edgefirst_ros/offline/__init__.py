"""Recordings to datasets: which files, in which order, with what was known of the session."""
