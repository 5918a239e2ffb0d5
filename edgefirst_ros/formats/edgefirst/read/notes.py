"""What the metadata of a table's file say: its version, its classes, and what values in masks are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

_MEANINGS = ("binary", "confidence", "sigmoid", "logits", "class_index")


@dataclass(frozen=True, slots=True)
class Notes:
    """Metadata of the file; what it does not state is None.

    Attributes:
        version: ``schema_version``.
        labels: names of the classes; a value in a mask of classes counts in it.
        ignore_index: the value in masks of classes that is of no class.
        masks: ``mask_interpretation``: binary, confidence, sigmoid, logits or class_index.
    """

    version: str | None
    labels: tuple[str, ...] | None
    ignore_index: int | None
    masks: str | None

    @classmethod
    def of(cls, metadata: Mapping[bytes, bytes]) -> Notes:
        """The notes in the metadata of an Arrow schema.

        Raises:
            ValueError: they are not what the vendor's format says.
        """
        texts = {
            key: metadata[key.encode()].decode()
            for key in ("schema_version", "labels", "ignore_index", "mask_interpretation")
            if key.encode() in metadata
        }
        masks, ignored = texts.get("mask_interpretation"), texts.get("ignore_index")
        if masks is not None and masks not in _MEANINGS:
            raise ValueError(f"mask_interpretation is {masks}, not one of {', '.join(_MEANINGS)}")
        labels = None
        if "labels" in texts:
            labels = json.loads(texts["labels"])
            if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
                raise ValueError("labels is not a list of names in JSON")
        if ignored is not None and not ignored.isdecimal():
            raise ValueError(f"ignore_index is {ignored}, not a number")
        return cls(
            texts.get("schema_version") or None,
            None if labels is None else tuple(labels),
            None if ignored is None else int(ignored),
            masks,
        )

    def class_of(self, value: int) -> tuple[bool, str | None]:
        """Whether a value in a mask is of a class, and that one's name; 0 without a name is background."""
        labels = self.labels or ()
        name = labels[value] if value < len(labels) else None
        is_background = value == 0 and (name is None or name.lower() == "background")
        return not is_background and value != self.ignore_index, name
