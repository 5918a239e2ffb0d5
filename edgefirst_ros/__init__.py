"""EdgeFirst Maivin/Raivin sensor data to training data: recordings in, datasets out."""
