"""What is left of a disturbed conversion after ``recover``: sound, with all that was acknowledged."""

from __future__ import annotations

import io
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from acknowledged import parsed
from contents import PAGE, REPORT, files, read
from forked import Ended, command, run, value_of
from scenarios import Prepared

NOTHING_THERE = 2
"""Exit code of ``recover`` and ``check`` where there is no dataset."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Units that were acknowledged, how many of them were found, and the first thing that is wrong."""

    acknowledged: int
    found: int
    fault: str = ""


State = dict[str, Any]
"""What ``contents.read`` found."""


@dataclass(frozen=True, slots=True)
class Left:
    """What is there after a recovery.

    Attributes:
        state: of the output; empty if it cannot be read.
        fault: the first thing that is wrong with it, whatever it should hold.
        said: what the recovery said.
    """

    state: State
    fault: str
    said: str


def recovered(output: Path) -> Left:
    """Recover, check, recover again, read everything."""
    was_there = bool(files(output))
    done = _anywhere(run(command("recover", output)), output)
    said = "; ".join(line.strip() for line in done.out.splitlines() if ":" in line and "warning" not in line)
    try:
        looked = value_of(lambda: _looked(output))
    except RuntimeError as error:
        return Left(
            {"units": {}, "datasets": {}, "reports": {}, "pages": {}}, f"cannot be read: {error}", said
        )
    state = looked["contents"]
    checked, again = (_anywhere(Ended(*looked[name]), output) for name in ("check", "again"))
    faults = (
        _recover_fault(done, was_there=was_there),
        _recover_fault(again, was_there=bool(state["datasets"])).replace("recover", "a second recover", 1),
        "recovering a second time changes files" if looked["changed"] else "",
        f"left behind: {', '.join(state['left'][:3])}" if state["left"] else "",
        *state["faults"][:1],
        _check_fault(checked, is_there=bool(state["datasets"])),
    )
    return Left(state, next(filter(None, faults), ""), said)


def judge(
    prepared: Prepared,
    output: Path,
    acknowledged: tuple[str, ...],
    expect: Callable[[State], str] | None = None,
) -> Verdict:
    """Recover, and compare with what was acknowledged and with undisturbed conversions.

    ``expect`` says what else is wrong with what is there then.
    """
    old_page = _old_page(prepared, files(output))
    told = parsed(acknowledged)
    count = sum(map(len, told.values()))
    left = recovered(output)
    state = left.state
    found = sum(key in state["units"].get(kind, {}) for kind, keys in told.items() for key in keys)
    faults = (
        old_page,
        "" if expect is None else expect(state),
        left.fault,
        f"{count - found} of {count} acknowledged are lost; recover said: {left.said[:200]}"
        if found < count
        else "",
        _mixed(prepared, state),
        _replaced(prepared, state),
        _pages(prepared, state),
    )
    return Verdict(count, found, next(filter(None, faults), ""))


def _anywhere(done: Ended, output: Path) -> Ended:
    """The same words wherever the output is."""
    return replace(done, out=done.out.replace(f"{output}", "OUT"), err=done.err.replace(f"{output}", "OUT"))


def _looked(output: Path) -> dict[str, Any]:
    """What a check and another recovery say and do, and what is there then; one fork for all of it."""
    before = files(output)
    check, again = _captured("check", output), _captured("recover", output)
    changed = files(output) != before
    return {"check": check, "again": again, "changed": changed, "contents": read(output).to_json()}


def _captured(*arguments: str | Path) -> tuple[int, str, str]:
    code, out, err = 0, io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            command(*arguments)()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(bool(end.code))
        except BaseException:  # noqa: BLE001 - as the interpreter would
            code = 1
            traceback.print_exc()
    return code, out.getvalue(), err.getvalue()


def _check_fault(done: Ended, *, is_there: bool) -> str:
    if done.traceback:
        return f"check: {done.traceback}"
    if done.code and (is_there or done.code != NOTHING_THERE):
        return f"check ends with {done.code}: {_first(done)}"
    if "has no manifest" in done.out:
        return "a dataset has no manifest"
    return ""


def whole_fault(prepared: Prepared, state: State) -> str:
    """What is not as after an undisturbed conversion."""
    for kind in ("datasets", "reports", "pages"):
        for name, meant in prepared.new[kind].items():
            if state[kind].get(name) != meant:
                return f"exit code 0, but {name} is not as it should be"
    return ""


def _recover_fault(done: Ended, *, was_there: bool) -> str:
    if done.traceback:
        return f"recover: {done.traceback}"
    if done.code and (was_there or done.code != NOTHING_THERE):
        return f"recover ends with {done.code}: {_first(done)}"
    return ""


def _mixed(prepared: Prepared, state: State) -> str:
    """Whether a unit is there that no undisturbed conversion has, or with other bytes."""
    sources = [source["units"] for source in (prepared.old, prepared.new) if source]
    for kind, units in state["units"].items():
        for key, digest in units.items():
            meant = {source.get(kind, {}).get(key) for source in sources} - {None}
            if not key.startswith("until ") and digest not in meant:
                return f"{kind} {key} " + ("has other bytes" if meant else "was never written")
    return ""


def _replaced(prepared: Prepared, state: State) -> str:
    """Whether a dataset that was there before is neither as it was nor the new one, or its report is."""
    old, new = prepared.old, prepared.new
    if not old:
        return ""
    kinds: dict[str, set[str]] = {}
    for name, was in old["datasets"].items():
        there, becomes = state["datasets"].get(name, {}), new["datasets"].get(name)
        if there not in (was, becomes):
            return f"{name} is neither the old nor the new one: {', '.join([*there][:4]) or 'gone'}"
        kinds.setdefault(name.partition("/")[0], set()).add("old" if there == was else "new")
    for name, was in old["reports"].items():
        there = state["reports"].get(name)
        allowed = {"old": was, "new": new["reports"].get(name)}
        if there not in {allowed[kind] for kind in kinds[name.partition("/")[0]]}:
            which = "/".join(sorted(kinds[name.partition("/")[0]]))
            told = "is missing" if there is None else "is of another dataset"
            return f"{name} of the {which} dataset {told}"
    return ""


def _old_page(prepared: Prepared, there: dict[str, str]) -> str:
    """Whether the page of the dataset before is still there although a file of the new one has its name."""
    if not prepared.old:
        return ""
    old, new = (
        {f"{name}/{file}": digest for name, held in each["datasets"].items() for file, digest in held.items()}
        for each in (prepared.old, prepared.new)
    )
    news = [name for name, digest in there.items() if old.get(name) != digest == new.get(name)]
    pages = [name for name, digest in prepared.old["pages"].items() if there.get(name) == digest]
    return f"{pages[0]} is of the dataset before, but {news[0]} is new" if news and pages else ""


def _pages(prepared: Prepared, state: State) -> str:
    """Whether a page is missing after a recovery, or shows another dataset than the report beside it."""
    sources = [source for source in (prepared.old, prepared.new) if source]
    for name, report in state["reports"].items():
        page = name.replace(REPORT, PAGE)
        meant = {source["pages"].get(page) for source in sources if source["reports"].get(name) == report}
        if meant and state["pages"].get(page) not in meant:
            return f"{page} " + ("shows another dataset" if page in state["pages"] else "is missing")
    alone = [name for name in state["pages"] if name.replace(PAGE, REPORT) not in state["reports"]]
    return f"{alone[0]} is of no report" if alone else ""


def _first(done: Ended) -> str:
    lines = [line for line in (done.err + done.out).splitlines() if line.strip()]
    told = [line for line in lines if "rror" in line] or lines
    return told[0].strip()[:200] if told else "no word"
