"""Options of commands, each once: those of the configuration in the words of its models, and others."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, TypeVar

import typer

from edgefirst_ros.formats.registry import FORMATS

TOLD = Path(__file__).parents[1] / "config" / "options.json"
"""What the models of options say, without what they import: ``make reference`` writes it."""
_SAID: Mapping[str, Mapping[str, Any]] = json.loads(TOLD.read_text(encoding="utf-8"))["config"]
MOST_NUMBER = 1e10
"""Times and sizes of more overflow; seeds have less."""
SETTINGS: dict[str, str] = {}
"""Options of the configuration by parameters of commands: the last of its names."""
FLAGS: dict[str, str] = {}
"""Options of the command line by the same parameters."""
OFFERED: dict[str, tuple[Any, Any]] = {}
"""Type and default of each option by its parameter; see ``taking``."""
Function = TypeVar("Function", bound=Callable[..., None])


def taking(parameters: str) -> Callable[[Function], Function]:
    """Give these options to a command, which gets their values by ``**given``."""

    def taken(function: Function) -> Function:
        own = inspect.signature(function, eval_str=True)
        taken = [each for each in own.parameters.values() if each.kind is not each.VAR_KEYWORD]
        for name in parameters.split():
            kind, default = OFFERED[name]
            each = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            taken.append(each)
        function.__signature__ = own.replace(parameters=taken)  # type: ignore[attr-defined]
        function.__annotations__ = {each.name: each.annotation for each in taken}
        return function

    return taken


def opt(typed: str, text: str, **more: Any) -> Any:  # noqa: ANN401 - typer's own
    """A parameter by what a user types for it, ``-o --output FOLDER`` or ``PATH``, and what it is.

    Values in lower case, ``coco|yolo``, are all that there are. With some numbers nothing can be calculated.
    """
    names = [word for word in typed.split() if word.startswith("-")]
    takes = " ".join(word for word in typed.split() if not word.startswith("-"))
    choices = takes.split("|") if "|" in takes and takes == takes.lower() else []

    def usable(value: Any) -> Any:  # noqa: ANN401 - of any type
        if choices and isinstance(value, str) and value not in choices:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(map(repr, choices))}")
        # Not finite is neither less nor more than a limit.
        if isinstance(value, int | float) and not abs(value) <= MOST_NUMBER:
            raise typer.BadParameter(f"expected at most {MOST_NUMBER:g}, found {value:g}")
        return value

    make = typer.Option if names else typer.Argument
    return make(*names, metavar=takes or None, help=text, callback=usable, **more)


def _offer(parameter: str, kind: Any, typed: str, text: str, default: Any = None, **more: Any) -> None:  # noqa: ANN401 - of any type
    """Offer an option to commands, under the title of the newest panel."""
    OFFERED[parameter] = Annotated[kind, opt(typed, text, rich_help_panel=_panel[-1], **more)], default


def _setting(parameter: str, kind: Any, typed: str = "", text: str = "") -> None:  # noqa: ANN401 - of types
    """An option of the configuration as one of the command line, in the first words of the first model."""
    SETTINGS[parameter] = next(each for each in _SAID if each.split(".")[-1] == parameter)
    said = _SAID[SETTINGS[parameter]]
    name, _, takes = (typed or f"--{parameter.replace('_', '-')}").partition(" ")
    FLAGS[parameter] = name.partition("/")[0]
    text = text or re.split(r"[.:;](?: |$)", said["is"].removeprefix("Live: "))[0] + "."
    typed = f"{name} {takes or '|'.join(said['choices'])}"
    _offer(parameter, kind | None, typed, text[:1].upper() + text[1:])


def asked(given: Mapping[str, Any]) -> SimpleNamespace:
    """The options by name, and as ``detail`` how much is to be printed: see ``print_report``."""
    return SimpleNamespace(**given, detail=0 if given["quiet"] else 1 + given["verbose"])


def chosen(given: Mapping[str, Any]) -> dict[str, Any]:
    """Values of the configuration, also in blocks, of a command's parameters; None where none was given."""
    found: dict[str, Any] = {}
    for parameter, name in SETTINGS.items():
        value = given.get(parameter)
        block, _, option = name.rpartition(".")
        if block and value is not None:
            found.setdefault(block, {})[option] = value
        elif not block:
            found[option] = ",".join(value) if isinstance(value, list) else value
    return found


_panel: list[str | None] = [None]
Overwrite = Annotated[bool, opt("--overwrite", "Replace what is there once the new is complete.")]
Quiet = Annotated[bool, opt("--quiet -q", "Print only warnings and errors.")]
AsJson = Annotated[bool, opt("--json", "Print the result as JSON and nothing else.")]
ConfigFile = Annotated[Path | None, opt("--config FILE", "A YAML file, or maivin, raivin, generic, none.")]
Connect = Annotated[list[str] | None, opt("--zenoh ENDPOINT", "The device, as tcp/192.168.1.5:7447.")]
Listen = Annotated[list[str] | None, opt("--zenoh-listen ENDPOINT", "Wait for the device at this address.")]
ZenohConfig = Annotated[Path | None, opt("--zenoh-config FILE", "Zenoh's own file: TLS, user, password.")]
Start = Annotated[str | None, opt("--start T", "Begin here, in seconds or as a time in UTC.")]
End = Annotated[str | None, opt("--end T", "End before this, given like --start.")]
Prefix = Annotated[str | None, opt("--prefix PREFIX", "Topic prefix of the device.")]

_offer("output", str, "-o --output FOLDER", "Folder, of convert also a URL.", "out")
OFFERED |= {"connect": (Connect, None), "listen": (Listen, None), "zenoh_config": (ZenohConfig, None)}
_setting("formats", list[str], "--format NAME,...", f"Formats to write: {', '.join(FORMATS.names)}.")
_offer("name", str, "--name NAME", "Name of the dataset, instead of the recording's.", "")
_setting("rate_hz", float, "--rate HZ")
OFFERED |= {"start": (Start, None), "end": (End, None), "config_file": (ConfigFile, None)}
_setting("split", str)
_offer("dry_run", bool, "--dry-run", "Write nothing, say what would be used and made.", default=False)
_offer("duration", float | None, "--duration SECONDS", "Finish after this time.", min=0)
_offer("start_paused", bool, "--start-paused", "Begin paused, until SIGUSR2.", default=False)
_setting("record", bool, "--record/--no-record")
_offer("verbose", bool, "--verbose -v", "Also print every topic, clock and note.", default=False)
OFFERED |= {"overwrite": (Overwrite, False), "quiet": (Quiet, False), "as_json": (AsJson, False)}
_panel.append("Which frames")
_setting("every", int, "--every N")
_setting("moving", bool, "--moving")
_setting("keyframes", bool, "--keyframes")
_setting("require", str, "--require all|SENSOR,...")
_setting("reference", str, "--reference TOPIC")
_panel.append("Many drives")
_offer("listed", list[str] | None, "--from LIST", "File of recordings, or - for standard input.")
_offer("jobs", int | None, "--jobs N", "Convert N drives at a time, one dataset each.", min=1)
_offer("engine", str | None, "--engine local|ray|dask", "Where to convert.")
_offer("address", str, "--address URL", "Cluster: auto, ray://HOST:10001, tcp://HOST:8786.", "")
_offer("memory_gb", float | None, "--memory GB", "Memory that Ray reserves for a job, 1.5 GB.", min=0.1)
_offer("retry_failed", bool, "--retry-failed", "Also try drives again that failed before.", default=False)
_offer("fail_fast", bool, "--fail-fast", "Stop at the first drive that fails.", default=False)
_panel.append("Advanced")
_offer("user", str, "--for NAME", "Settings that a program asks for: studio.", "")
_offer("session", str, "--session NAME", "Name of the sequence, instead of HOST_date_time.", "")
_setting("schema_version", str, "--schema")
_setting("container", str)
_setting("pictures", str, "--pictures jpegN|png")
_setting("prefix", str, "--prefix PREFIX")
_offer("namespace", str, "--namespace HOST", "Topic prefix of the device.", "")
_setting("host", str, "--host HOST")
_setting("split_every", str, "--split-every 600s|2GB")
_setting("workers", int, "--workers N")
_offer("no_report", bool, "--no-report", "Make no page beside the report.", default=False)
_offer("strict", bool, "--strict", "Exit 1 if anything was rejected or warned of.", default=False)
