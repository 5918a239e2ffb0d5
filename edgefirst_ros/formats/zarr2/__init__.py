"""Records of zarr format 2: JSON metadata and Blosc chunks; the caller stores them."""
