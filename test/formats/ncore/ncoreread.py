"""Stores read back with nothing but the standard library and zarr2: the tests' own eyes."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from places import contents

from edgefirst_ros.formats.format import Recovery
from edgefirst_ros.formats.ncore.recover import recover
from edgefirst_ros.formats.zarr2 import read_array


def recover_all(root: Path) -> list[Recovery]:
    """Recover every sequence of a folder; what was done where there was something to do."""
    folders = (folder for folder in sorted(root.iterdir()) if [*folder.glob("*")])
    found = [recover(folder) for folder in folders]
    return [done for done in found if not done.was_finished]


class Sequence:
    """All records of a finished sequence, whatever its stores are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.meta = json.loads((folder / f"{folder.name}.json").read_text())
        self.stores: dict[str, dict[str, bytes]] = {}
        for listed in self.meta["component_stores"]:
            self.stores[listed["path"]] = records(folder / listed["path"])
        self.records = {key: data for store in self.stores.values() for key, data in store.items()}

    def attributes(self, path: str) -> dict[str, Any]:
        return json.loads(self.records[f"{path}/.zattrs"])

    def array(self, path: str) -> np.ndarray:
        return read_array(self.records.__getitem__, path)

    def frames(self, path: str) -> list[list[int]]:
        return self.attributes(f"{path}/frames")["frames_timestamps_us"]

    def interval(self) -> tuple[int, int]:
        found = self.meta["sequence_timestamp_interval_us"]
        return found["start"], found["stop"]

    def instances(self, component: str) -> list[str]:
        names = {key.split("/")[1] for key in self.records if key.startswith(f"{component}/")}
        return sorted(names - {".zgroup"})

    def pose(self, source: str, target: str) -> np.ndarray:
        """Static or dynamic pose from source to target."""
        key = str((source, target))
        static = self.attributes("poses/default/static_poses")
        if key in static:
            return np.array(static[key]["pose"], static[key]["dtype"])
        return np.array(self.attributes("poses/default/dynamic_poses")[key]["poses"])


def records(path: Path) -> dict[str, bytes]:
    """Key to payload of a store."""
    if path.is_dir():
        return contents(path)
    with tarfile.open(path, "r:") as archive:
        members = archive.getmembers()
        assert len({member.name for member in members}) == len(members)
        return {member.name: archive.extractfile(member).read() for member in members}  # type: ignore[union-attr]
