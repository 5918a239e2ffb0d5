"""Datasets as one corpus: open them wherever they lie, ask a catalogue, choose, split, export."""
