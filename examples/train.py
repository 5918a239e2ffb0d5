# %% [markdown]
# # From a recording to a training batch
#
#     python examples/train.py RECORDING OUT
#
# Each `# %%` begins a cell in VS Code, Spyder and Jupyter (jupytext). It needs `pip install torch`.
# docs/training.md says what the samples hold.

# %% Convert the recording: as `edgefirst-ros convert RECORDING -o OUT --rate 5`
import argparse
from pathlib import Path

import torch
from torch.nn import functional
from torch.utils.data import DataLoader

import edgefirst_ros

parser = argparse.ArgumentParser(description="From a recording to a training batch, and some steps.")
parser.add_argument("recording", type=Path, help="an MCAP file, or a folder of them")
parser.add_argument("out", type=Path, help="folder for the dataset; if there is one, it is taken as it is")
chosen = parser.parse_args()
out = chosen.out
if not out.exists():
    done = edgefirst_ros.convert(chosen.recording, out, rate=5)
    print(done.report["samples"], "samples")

# %% Open it, and look at a sample: a dictionary of numpy arrays, None for what the sample lacks
train = edgefirst_ros.open(out, group="train")
for key, value in train[0].items():
    shown = list(value) if isinstance(value, dict) else getattr(value, "shape", value)
    print(f"{key:14}", shown, getattr(value, "dtype", ""))
print(train.labels)

# %% [markdown]
# A batch for pictures and boxes: only these files are read, and pictures of one size become one tensor. With
# `num_workers`, put what follows into a function that is called below `if __name__ == "__main__":`.

# %%
CELL = 16
"""Pixels of the picture to a cell of what the model predicts."""

looked_at = edgefirst_ros.open(out, group="train", keys=["image", "boxes2d"], labelled="boxes2d")
print(len(looked_at), "of", len(train), "pictures have labels; no model looked at the others")
loader = DataLoader(looked_at, batch_size=8, shuffle=True, collate_fn=edgefirst_ros.collate)
batch = next(iter(loader))
pictures = batch["image"].float() / 255
print("batch", tuple(pictures.shape), "boxes", [len(boxes) for boxes in batch["boxes2d"]])


# %% What the model shall find: for each class, the cells with the centre of a box
def centres(batch: dict, classes: int, rows: int, columns: int) -> torch.Tensor:
    wanted = torch.zeros(len(batch["boxes2d"]), classes, rows, columns)
    for number, (boxes, labels) in enumerate(zip(batch["boxes2d"], batch["labels2d"], strict=True)):
        known = labels >= 0
        x, y = boxes[known, 0], boxes[known, 1]
        column = (x * columns).long().clamp(0, columns - 1)
        row = (y * rows).long().clamp(0, rows - 1)
        wanted[number, labels[known], row, column] = 1
    return wanted


# %% A tiny model, and some steps
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 16, 4, 4),
    torch.nn.ReLU(),
    torch.nn.Conv2d(16, 32, 4, 4),
    torch.nn.ReLU(),
    torch.nn.Conv2d(32, len(train.labels), 3, padding=1),
)
optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
rows, columns = pictures.shape[2] // CELL, pictures.shape[3] // CELL
wanted = centres(batch, len(train.labels), rows, columns)
for step in range(5):
    loss = functional.binary_cross_entropy_with_logits(model(pictures), wanted)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    print(f"step {step}: loss {loss.item():.4f}")
