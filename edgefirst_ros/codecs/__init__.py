"""zlib streams and PNG, for every package that writes them."""
