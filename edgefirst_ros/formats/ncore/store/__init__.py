"""Where records lie: tar files or directories, their journal and commit marks."""
