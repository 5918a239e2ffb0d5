"""What survives a kill or a power cut, for every format."""
