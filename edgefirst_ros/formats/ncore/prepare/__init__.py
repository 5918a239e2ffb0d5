"""Single measurements to parts of an NCore store; pure functions, for any thread."""
