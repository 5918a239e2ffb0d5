"""What is known of objects over time, whatever the format: class, motion, heading and size."""
