"""NCore V4 sequences: records appended as they come, finished from what is on disk."""
