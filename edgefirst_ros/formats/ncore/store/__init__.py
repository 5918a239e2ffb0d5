"""Where records lie: tar files or directories, their journal and the marks of their entries."""
