"""Recordings and datasets in the Rerun viewer; needs the extra ``view``."""
