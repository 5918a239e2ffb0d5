"""What can be verified about NCore sequences."""
