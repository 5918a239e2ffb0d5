"""Warnings and notes about the sequences, for the user."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Remarks:
    """Sentences in the order in which they were found, each once."""

    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def warn(self, text: str) -> None:
        """Add a warning: the data are not what a reader would assume."""
        if text not in self.warnings:
            self.warnings.append(text)

    def note(self, text: str) -> None:
        """Add a note: something was done to the data."""
        if text not in self.notes:
            self.notes.append(text)
