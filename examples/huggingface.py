"""Reads shards with Hugging Face's datasets; nothing is downloaded.

    edgefirst-ros export shards sets -o shards --labelled
    python examples/huggingface.py shards

It needs `pip install datasets pillow`. With torch, `opened["train"]` goes into a DataLoader as it is.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # the builder is part of the library

import datasets

parser = argparse.ArgumentParser(description="Reads shards with Hugging Face's datasets.")
parser.add_argument("shards", type=Path, help="the folder that export shards wrote")
folder = parser.parse_args().shards

index = json.loads((folder / "shards.json").read_text())
files = {group: [str(folder / name) for name in found["shards"]] for group, found in index["groups"].items()}
text, number = datasets.Value("string"), datasets.Value("float64")
facts = dict.fromkeys(("name", "sequence", "group"), text)
facts |= {name: datasets.Value("int64") for name in ("frame", "time_ns")}
facts |= {name: datasets.List(number) for name in ("location", "pose")}
facts["boxes2d"] = datasets.List(datasets.List(number))
facts |= {
    "labels2d": datasets.List(datasets.Value("int64")),
    "ignore2d": datasets.List(datasets.Value("bool")),
}
# Without types they would be guessed from the first samples, which may have no boxes.
types = datasets.Features({"__key__": text, "__url__": text, "jpg": datasets.Image(), "json": facts})
opened = datasets.load_dataset("webdataset", data_files=files, features=types, streaming=True)
for group, samples in opened.items():
    count = boxes = 0
    for sample in samples.shuffle(seed=0, buffer_size=64):
        width, height = sample["jpg"].size  # a PIL picture; sample["json"] has the boxes
        count += 1
        boxes += len(sample["json"]["boxes2d"] or ())
    print(f"{group}: {count} pictures of {width}x{height}, {boxes} boxes of {', '.join(index['labels'])}")
