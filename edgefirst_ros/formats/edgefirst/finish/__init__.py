"""The end of a dataset: the annotation table made of the journal, and the final names."""
