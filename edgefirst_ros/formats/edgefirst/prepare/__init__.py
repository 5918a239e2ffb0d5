"""One sample to encoded files and table rows; pure functions, for any thread."""
