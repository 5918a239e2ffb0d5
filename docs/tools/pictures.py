"""Makes docs/images/sheet.png, report.png and terminal.svg: what the program makes of a simulated drive.

The page of the report is photographed in Chromium, by playwright.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.text import Text

from edgefirst_ros.model.untrusted import PAGE

FOLDER = Path(__file__).resolve().parents[1] / "images"
DRIVE = ("--seconds", "20", "--fps", "15", "--size", "960x540", "--set", "host=maivin")
FAULTY = FOLDER.parents[1] / "test" / "faulty"
FAULT = ("--set", "silent.lidar/points=[[4,7]]", "--set", "crossings_s=[2.5,9,15]")
"""The lidar is silent for three seconds, which the page and the summary show."""
CONVERT = ("convert", "drive", "-o", "out", "--name", "demo", "--rate", "2")
ROWS = 3
COLUMNS = 126
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


def terminal(said: str) -> str:
    """A drawing of a terminal with the command and what it printed."""
    text = Text(f"$ edgefirst-ros {' '.join(CONVERT)}\n{said}")
    text.highlight_regex(r"^\$.*", "bold")
    text.highlight_regex(r"(?m)^(good|fair|poor):.*", "bold yellow")
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


def main() -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        run("simulate", "-o", "drive", *DRIVE, *FAULT, folder=folder, program=[str(FAULTY)])
        said = run(*CONVERT, folder=folder)
        dataset = folder / "out" / "edgefirst" / "demo"
        sheet = str(FOLDER / "sheet.png")
        run("report", str(dataset), "--picture", sheet, "--rows", str(ROWS), folder=folder)
        photograph(dataset / PAGE, FOLDER / "report.png")
    (FOLDER / "terminal.svg").write_text(terminal(said), encoding="utf-8")


if __name__ == "__main__":
    main()
