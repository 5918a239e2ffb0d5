"""Live capture: sessions fed by callbacks."""
