"""Camera pictures: H.264, H.265, JPEG, PNG and uncompressed images, decoded and encoded."""
