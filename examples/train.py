# %% [markdown]
# # From a folder of recordings to a trained detector
#
#     python examples/train.py RECORDINGS OUT --picture detector.png
#
# Each `# %%` begins a cell in VS Code, Spyder and Jupyter (jupytext). It needs `pip install torch`.
# docs/training.md lists what a sample holds.

# %% Convert the recordings, if there is no dataset yet: `edgefirst-ros convert RECORDINGS -o OUT --rate 2`
import argparse
from pathlib import Path

import torch
from PIL import Image, ImageDraw
from torch.nn import functional
from torch.utils.data import DataLoader

import edgefirst_ros

parser = argparse.ArgumentParser(description="From a folder of recordings to a trained detector.")
parser.add_argument("recording", type=Path, help="a recording, or a folder of them")
parser.add_argument("out", type=Path, help="folder for the dataset; an existing one is used as it is")
parser.add_argument("--passes", type=int, default=5, help="how often to go through the dataset")
parser.add_argument("--picture", type=Path, help="draw what the detector finds in a validation picture")
chosen = parser.parse_args()
if not chosen.out.exists():
    edgefirst_ros.convert(chosen.recording, chosen.out, rate=2)

# %% Open both groups: only pictures and boxes are read, of samples that have labels
wanted = {"keys": ["image", "boxes2d"], "labelled": "boxes2d"}
train = edgefirst_ros.open(chosen.out, group="train", **wanted)
val = edgefirst_ros.open(chosen.out, group="val", labels=train.labels, **wanted)
print(f"{len(train)} samples to train with, {len(val)} to validate with, classes {', '.join(train.labels)}")

# %% [markdown]
# `collate` stacks pictures of one size to a tensor, and makes a list of the boxes. With `num_workers`, put
# what follows into a function that is called below `if __name__ == "__main__":`.

# %%
loader = DataLoader(train, batch_size=8, shuffle=True, collate_fn=edgefirst_ros.collate)


# %% What it shall predict, in the cell of each box's centre: the class, the place in the cell, and the size
def targets(batch: dict, rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    heat = torch.zeros(len(batch["boxes2d"]), len(train.labels), rows, columns)
    shape = torch.zeros(len(batch["boxes2d"]), 4, rows, columns)
    for number, (boxes, labels) in enumerate(zip(batch["boxes2d"], batch["labels2d"], strict=True)):
        for (x, y, width, height), label in zip(boxes.tolist(), labels.tolist(), strict=True):
            row, column = min(int(y * rows), rows - 1), min(int(x * columns), columns - 1)
            if label >= 0:
                heat[number, label, row, column] = 1
            shape[number, :, row, column] = torch.tensor(
                [x * columns - column, y * rows - row, width * 10, height * 10]
            )
    return heat, shape


# %% A small detector
torch.manual_seed(0)
layers = [torch.nn.AvgPool2d(4)]
for before, after, stride in ((3, 16, 2), (16, 32, 2), (32, 32, 1), (32, 32, 1), (32, 32, 1)):
    layers += [torch.nn.Conv2d(before, after, 3, stride, 1), torch.nn.BatchNorm2d(after), torch.nn.ReLU()]
detector = torch.nn.Sequential(*layers, torch.nn.Conv2d(32, len(train.labels) + 4, 1))
detector[-1].bias.data.fill_(-4.0)  # most cells hold nothing
optimiser = torch.optim.Adam(detector.parameters(), lr=3e-3)

# %% Train it
for number in range(chosen.passes):
    losses = []
    for batch in loader:
        found = detector(batch["image"].float() / 255)
        heat, shape = targets(batch, *found.shape[2:])
        score = found[:, :-4].sigmoid().clamp(1e-4, 1 - 1e-4)
        # Cells that are right already count little (focal loss).
        missed = heat * (1 - score) ** 2 * score.log() + (1 - heat) * score**2 * (1 - score).log()
        off = (found[:, -4:] - shape).abs() * heat.amax(1, keepdim=True)
        loss = (off.sum() - missed.sum()) / heat.sum().clamp(min=1)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    print(f"pass {number + 1}: loss {sum(losses) / len(losses):.3f}", flush=True)

# %% Draw what it finds in a picture that it has never seen: yellow is found, white is the label
if chosen.picture:
    detector.eval()
    sample = max(val, key=lambda sample: len(sample["boxes2d"]))
    picture = Image.fromarray(sample["image"])
    draw = ImageDraw.Draw(picture)
    with torch.no_grad():
        found = detector(torch.tensor(sample["image"]).permute(2, 0, 1)[None].float() / 255)[0]
    score, rows, columns = found[:-4].sigmoid(), *found.shape[1:]
    peaks = (score == functional.max_pool2d(score, 5, 1, 2)) & (score > 0.3)
    boxes = [
        ("white", box, train.labels[k]) for box, k in zip(sample["boxes2d"], sample["labels2d"], strict=True)
    ]
    for label, row, column in peaks.nonzero().tolist():
        x, y, width, height = found[-4:, row, column].tolist()
        box = ((column + x) / columns, (row + y) / rows, width / 10, height / 10)
        boxes.append(("yellow", box, f"{train.labels[label]} {score[label, row, column]:.2f}"))
    for colour, (x, y, width, height), text in boxes:
        corners = ((x - width / 2), (y - height / 2), (x + width / 2), (y + height / 2))
        left, top, right, bottom = (c * n for c, n in zip(corners, picture.size * 2, strict=True))
        draw.rectangle((left, top, max(left, right), max(top, bottom)), outline=colour, width=2)
        draw.text((left + 3, bottom + 2 if colour == "white" else top - 12), text, fill=colour)
    picture.save(chosen.picture)
