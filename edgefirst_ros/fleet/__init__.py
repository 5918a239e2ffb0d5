"""Conversion of many drives into one output: begin with ``run``."""
