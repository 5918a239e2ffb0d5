"""zlib streams and PNG."""
