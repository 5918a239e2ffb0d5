"""H.264 and H.265 to frames to JPEG."""
