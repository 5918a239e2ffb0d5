"""Which time a message carries, and which messages belong together."""
