"""Writes edgefirst_ros/config/options.json: what the models say, for those that cannot import them.

The help of the command line is quick because it imports no model, and launch runs under a Python that has
not what the models need.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from edgefirst_ros.config.model import Config
from edgefirst_ros.nodes.options import CaptureOptions, ReplayOptions
from edgefirst_ros.nodes.parameters import specify

TOLD = Path(__file__).resolve().parents[2] / "edgefirst_ros" / "config" / "options.json"
MODELS = {"config": Config, "capture": CaptureOptions, "replay": ReplayOptions}


def lines(model: type[BaseModel]) -> Iterator[str]:
    """A line for each option of a model, but those of topics."""
    for spec in specify(model):
        if spec.path[0] != "topics":
            default = None if spec.optional else spec.default
            said = {"kind": spec.kind, "default": default, "choices": spec.choices, "is": spec.description}
            yield f'    "{spec.name}": {json.dumps(said, ensure_ascii=False)}'


def told() -> str:
    """The whole file."""
    blocks = [f'  "{name}": {{\n' + ",\n".join(lines(model)) + "\n  }" for name, model in MODELS.items()]
    return "{\n" + ",\n".join(blocks) + "\n}\n"


if __name__ == "__main__":
    TOLD.write_text(told(), encoding="utf-8")
