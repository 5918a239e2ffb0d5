"""What a user is told of the sequences: warnings before they are used, and notes worth knowing."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Remarks:
    """Sentences in the order in which they were found, each once."""

    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def warn(self, text: str) -> None:
        """Something that makes the output other than it seems."""
        if text not in self.warnings:
            self.warnings.append(text)

    def note(self, text: str) -> None:
        """Something that was done to the data."""
        if text not in self.notes:
            self.notes.append(text)
