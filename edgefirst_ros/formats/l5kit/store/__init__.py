"""L5Kit arrays on disk: their schema, chunk files, and datasets that grow."""
