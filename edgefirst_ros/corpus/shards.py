"""Exports samples as WebDataset shards: tar files that training reads from beginning to end."""

from __future__ import annotations

import io
import json
import random
import tarfile
from collections.abc import Collection, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.corpus.exporting import Source, file_name, gathered, new_folder, pictures, write_new
from edgefirst_ros.corpus.reading import CLOUDS, fields_of, matrix_of_cloud
from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.formats.edgefirst.read.dataset import Sample
from edgefirst_ros.model.errors import ConfigError

SHARD_MB = 256
"""A store sends so much in some seconds, and a drive of an hour still makes enough to share among workers."""
SENSORS = ("lidar", "radar", "cube", "depth")
"""What ``sensors`` may name. Their stored files will not do: readers take .pcd for a Photo CD, and .png of 16
bits for a picture."""
INDEX = "shards.json"
_KEYS = ("boxes2d", "time_ns")


def export_shards(
    dataset: Source,
    out: str | PathLike[str],
    *,
    sensors: Collection[str] = (),
    labelled: bool = False,
    shard_mb: float = SHARD_MB,
    seed: int = 0,
) -> Path:
    """Write samples of datasets as tar files for reading in order, as WebDataset and others do.

    ``out/GROUP-000000.tar`` and so on have for each sample ``NAME.jpg`` (or ``.png``), byte for byte,
    ``NAME.json``, and what ``sensors`` names as arrays, such as ``NAME.lidar.npy``: clouds (N, F) float32,
    whose columns the JSON has as ``lidar_fields``, x, y, z first; cube and depth as in samples. The JSON has
    name, sequence, frame, time_ns, location, pose, and boxes2d (centre x, y, width, height as fractions),
    labels2d (class numbers, -1 without), ignore2d; null where nobody looked. Samples of all drives are mixed,
    as readers shuffle only what is in memory. ``out/shards.json`` has the names of the classes, and the
    shards of each group with the number of samples. The same arguments give the same bytes. If it fails,
    nothing is left of it.

    Args:
        dataset: as ``export_coco`` takes it.
        out: a new or empty folder.
        sensors: of ``SENSORS``.
        labelled: only samples in which somebody looked for 2-D boxes.
        shard_mb: size of a shard, in 10⁶ bytes; the last one is smaller.
        seed: of the order.

    Returns:
        ``shards.json``.

    Raises:
        OutputExists: ``out`` is not empty.
        WriteError: the disk is full, or refuses.
        DatasetNotFound: there is no finished dataset.
        DatasetError: a file of it is damaged.
        ConfigError: there is no such sensor.
    """
    if unknown := [name for name in sensors if name not in SENSORS]:
        raise ConfigError([f"sensors: expected of {', '.join(SENSORS)}, found {', '.join(unknown)}"])
    source = gathered(dataset)
    order = list(range(len(source)))
    random.Random(seed).shuffle(order)
    groups: dict[str, _Group] = {}
    # A reader takes what follows the first dot of a name for the kind of the file.
    chosen = pictures(source, [*_KEYS, *sensors], unlabelled=not labelled, order=order, dot="_")
    with new_folder(out) as folder:
        try:
            for sample, picture, name, _, ending in chosen:
                facts, arrays = _facts(sample), {}
                for sensor in sensors:
                    if (value := sample[sensor]) is not None:
                        if sensor in CLOUDS:
                            facts[f"{sensor}_fields"] = fields = fields_of([value])
                            value = matrix_of_cloud(value, fields)
                        arrays[f"{sensor}.npy"] = _npy(value)
                files = {ending: picture, "json": json.dumps(facts).encode(), **arrays}
                group = file_name(sample["group"] or "all")
                if group not in groups:
                    groups[group] = _Group(folder, group, int(shard_mb * 1e6))
                groups[group].add(name, files)
        finally:
            for each in groups.values():
                each.close()
        content = {
            "labels": list(source.labels),
            "groups": {
                name: {"samples": group.samples, "shards": group.shards}
                for name, group in sorted(groups.items())
            },
        }
        write_new(folder / INDEX, json.dumps(content, indent=1))
        return folder / INDEX


def _facts(sample: Sample) -> dict[str, Any]:
    keys = ("boxes2d", "labels2d", "ignore2d", "location", "pose")
    arrays = {key: None if sample[key] is None else sample[key].tolist() for key in keys}
    return {key: sample[key] for key in ("name", "sequence", "frame", "group", "time_ns")} | arrays


def _npy(array: npt.NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


class _Group:
    """The shards of a group, of which one is open.

    Attributes:
        shards: names.
        samples: how many were added.
    """

    def __init__(self, folder: Path, name: str, most_bytes: int) -> None:
        self.shards: list[str] = []
        self.samples = 0
        self._folder, self._name, self._most_bytes = folder, name, most_bytes
        self._bytes = 0
        self._tar: tarfile.TarFile | None = None

    def add(self, name: str, files: Mapping[str, bytes]) -> None:
        """Write a sample; its files follow one another."""
        size = sum(map(len, files.values()))
        with disk_errors(self._folder):
            if self._tar is None or self._bytes + size > self._most_bytes:
                self.close()
                self.shards.append(f"{self._name}-{len(self.shards):06d}.tar")
                path = self._folder / self.shards[-1]
                self._tar, self._bytes = tarfile.open(path, "x:", format=tarfile.USTAR_FORMAT), 0  # noqa: SIM115
            for ending, data in files.items():
                entry = tarfile.TarInfo(f"{name}.{ending}")
                entry.size = len(data)
                self._tar.addfile(entry, io.BytesIO(data))
        self._bytes += size
        self.samples += 1

    def close(self) -> None:
        """Complete the shard that is open."""
        tar, self._tar = self._tar, None
        if tar is not None:
            with disk_errors(self._folder):
                tar.close()
