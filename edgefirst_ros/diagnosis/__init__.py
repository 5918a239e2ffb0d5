"""Judges a drive by its report, and a live capture by its status: the only place that grades or warns."""
