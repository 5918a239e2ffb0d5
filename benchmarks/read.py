"""Samples per second that torch's DataLoader gets out of an EdgeFirst dataset.

    .venv-torch/bin/python benchmarks/read.py [--dataset FOLDER] [--samples 200] [--runs 3] [--others]

`make test-torch` makes that environment. Without a dataset, a 1080p30 drive with radar cubes and a lidar of
60 000 rays is simulated and converted, once: it is kept in the folder for temporary files. Each line is the
best of several runs over the same samples in random order; the start of the workers does not count. --others
reads the same pictures in other ways: with PIL out of the ZIP, with torchvision's ImageFolder.
"""

from __future__ import annotations

import argparse
import io
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from PIL import Image
from read_drive import BATCH, KEYS, dataset

import edgefirst_ros

try:
    import torch
    from torch.utils.data import DataLoader, Dataset
except ModuleNotFoundError:
    raise SystemExit("torch is not installed; make test-torch makes a venv with it, .venv-torch") from None

WORKERS = (0, 1, 2)


class Zipped(Dataset):
    """Pictures of a ZIP, as one reads them without this package."""

    def __init__(self, place: Path) -> None:
        self._path = next(place.rglob("*.zip"))
        with zipfile.ZipFile(self._path) as archive:
            self._names = [name for name in archive.namelist() if name.endswith(".camera.jpeg")]
        self._open: dict[int, zipfile.ZipFile] = {}
        """By process: forked ones would move each other's position."""

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, number: int) -> Any:  # noqa: ANN401 - torch has no types
        if os.getpid() not in self._open:
            self._open = {os.getpid(): zipfile.ZipFile(self._path)}
        archive = self._open[os.getpid()]
        with Image.open(io.BytesIO(archive.read(self._names[number]))) as picture:
            return tensor(np.array(picture.convert("RGB")))


def tensor(picture: Any) -> Any:  # noqa: ANN401 - torch has no types
    """The picture (3, H, W)."""
    return torch.from_numpy(picture).permute(2, 0, 1)


def others(place: Path) -> Iterator[tuple[str, Any]]:
    """The same pictures in other ways."""
    folder = place.parent / "others"
    if not folder.is_dir():
        edgefirst_ros.export_yolo(place, folder / "yolo", unlabelled=True)
    yield "PIL and zipfile", Zipped(place)
    try:
        from torchvision.datasets import ImageFolder  # noqa: PLC0415
    except (ImportError, RuntimeError):
        print("torchvision is not installed")
    else:
        yield "torchvision's ImageFolder", Files(ImageFolder(str(folder / "yolo" / "images")))


class Files(Dataset):
    """Pictures of an ImageFolder without its classes."""

    def __init__(self, folder: Any) -> None:  # noqa: ANN401 - torchvision has no types
        self._folder = folder

    def __len__(self) -> int:
        return len(self._folder)

    def __getitem__(self, number: int) -> Any:  # noqa: ANN401 - torch has no types
        return tensor(np.array(self._folder[number][0]))


def rate(
    opened: Any,  # noqa: ANN401 - any dataset
    samples: int,
    workers: int,
    collate: Callable[..., Any] | None = edgefirst_ros.collate,
) -> tuple[float, float]:
    """Samples per second after the first batch of each worker, and CPU ms of this process for each."""
    order = [number * 7919 % len(opened) for number in range(samples)]
    loader = DataLoader(opened, batch_size=BATCH, sampler=order, num_workers=workers, collate_fn=collate)
    batches = iter(loader)
    for _ in range(max(1, workers)):
        next(batches)
    begin_s, begin_cpu_s = perf_counter(), process_time()
    count = sum(len(batch if collate is None else batch["name"]) for batch in batches)
    return count / (perf_counter() - begin_s), (process_time() - begin_cpu_s) / count * 1e3


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", type=Path, help="default: a simulated drive, made once")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--others", action="store_true", help="pictures alone, also in other ways")
    chosen = parser.parse_args()
    place = chosen.dataset or dataset()
    print("| keys | " + " | ".join(f"{n} workers" for n in WORKERS) + " | CPU ms a sample |")
    print("|---|" + "---|" * (len(WORKERS) + 1))
    ours = ((name, edgefirst_ros.open(place, keys=keys)) for name, keys in KEYS.items())
    lines = [*[*ours][:1], *others(place)] if chosen.others else ours
    for name, opened in lines:
        collate = edgefirst_ros.collate if isinstance(opened, edgefirst_ros.EdgeFirstDataset) else None
        runs = {
            workers: [rate(opened, chosen.samples, workers, collate) for _ in range(chosen.runs)]
            for workers in WORKERS
        }
        best = [max(each for each, _ in runs[workers]) for workers in WORKERS]
        cpu_ms = min(each for _, each in runs[0])
        print(f"| {name} | " + " | ".join(f"{each:.0f}" for each in best) + f" | {cpu_ms:.1f} |", flush=True)


if __name__ == "__main__":
    main()
