"""Reads finished datasets: files one at a time, rows of the table, samples as arrays."""
