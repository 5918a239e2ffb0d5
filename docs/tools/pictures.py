"""Makes the pictures in docs/images/ that show what the program makes of simulated drives.

The page of the report is photographed in Chromium, by playwright. detector.png needs torch; without it
that picture stays as it is.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.text import Text

from edgefirst_ros.model.untrusted import PAGE

FOLDER = Path(__file__).resolve().parents[1] / "images"
TUTORIAL = FOLDER.parent / "tutorial.md"
SIZE = ("--seconds", "20", "--fps", "15", "--size", "960x540")
FAULTY = FOLDER.parents[1] / "test" / "faulty"
FAULT = ("--set", "silent.lidar/points=[[4,7]]", "--set", "crossings_s=[2.5,9,15]")
"""The lidar is silent for three seconds, which the page shows."""
TRAIN = FOLDER.parents[1] / "examples" / "train.py"
COLUMNS = 110
PAGE_SIZE = (1100, 1150)
PAGE_S = 2.0
"""Until the plots are drawn."""


def run(*words: str, folder: Path, program: Sequence[str] = ("-m", "edgefirst_ros")) -> str:
    """What a command prints, without its progress."""
    command = [sys.executable, *program, *words]
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"COLUMNS": str(COLUMNS)},
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    return "\n".join(line for line in lines if "% of " not in line and "real time" not in line)


def terminal(command: str, said: str) -> str:
    """A drawing of a terminal with a command and what it printed."""
    text = Text(f"$ {command}\n{said}")
    text.highlight_regex(r"^\$.*", "bold")
    text.highlight_regex(r"(?m)^(good|fair|poor)\b.*", "bold yellow")
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(text, soft_wrap=True)
    drawn = console.export_svg(title="edgefirst-ros", unique_id="terminal")
    # Fonts that a browser would load from a network.
    drawn = re.sub(r"@font-face \{.*?\}\n", "", drawn, flags=re.S)
    return "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"


def photograph(page: Path, picture: Path) -> None:
    """The top of a page as a browser shows it."""
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        width, height = PAGE_SIZE
        opened = browser.new_page(viewport={"width": width, "height": height})
        opened.goto(page.as_uri())
        opened.wait_for_timeout(1000 * PAGE_S)
        opened.screenshot(path=picture)
        browser.close()


def follow_the_tutorial(folder: Path) -> None:
    """Run its commands up to the sheet, and train."""
    shown = {"info": "info.svg", "convert": "terminal.svg"}
    text = TUTORIAL.read_text(encoding="utf-8")
    for line in re.findall(r"^edgefirst-ros ((?:simulate|info|convert|report) .*)$", text, re.M):
        words = shlex.split(line)
        said = run(*words, folder=folder)
        if name := shown.pop(words[0], None):
            drawn = terminal(f"edgefirst-ros {line}", said)
            (FOLDER / name).write_text(drawn, encoding="utf-8")
    shutil.copy(folder / "sheet.png", FOLDER)
    if find_spec("torch"):
        picture = ("--passes", "40", "--picture", str(FOLDER / "detector.png"))
        run("drives", "out", *picture, folder=folder, program=[str(TRAIN)])


def main() -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        follow_the_tutorial(folder)
        run("simulate", "-o", "faulty", *SIZE, *FAULT, folder=folder, program=[str(FAULTY)])
        run("convert", "faulty", "-o", "faulted", "--name", "demo", "--rate", "2", folder=folder)
        photograph(folder / "faulted" / "edgefirst" / "demo" / PAGE, FOLDER / "report.png")


if __name__ == "__main__":
    main()
