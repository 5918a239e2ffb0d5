"""A live session's messages as an MCAP beside its datasets, with what makes the same datasets of it again."""
