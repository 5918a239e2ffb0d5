"""Output formats: each a folder with a writer, and what it needs to be read back."""
