"""Records of zarr format 2: metadata as JSON, chunks as Blosc; where they are stored is the caller's."""
