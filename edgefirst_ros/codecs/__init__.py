"""Compressed bytes that several rooms make: zlib streams and PNG."""
