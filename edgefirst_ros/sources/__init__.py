"""Where messages come from: anything that yields RawMessage."""
