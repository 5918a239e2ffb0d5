"""What every room may use: the door for foreign bytes."""
