"""HTML from values: every text is escaped, because names and reasons come from recordings."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from typing import Any

from edgefirst_ros.model.untrusted import visible

MOST_TEXT = 600
"""Characters of one text that are shown."""


class Html(str):
    """Markup that is safe to put into a page as it is."""

    __slots__ = ()


Child = str | int | float | Html | None


def text(value: Child) -> Html:
    """A value as markup: escaped, without control characters and changes of direction, and not endless."""
    if isinstance(value, Html):
        return value
    if value is None:
        return Html("")
    shown = str(value)
    shown = shown if len(shown) <= MOST_TEXT else f"{shown[:MOST_TEXT]}…"
    return Html(html.escape(visible(shown, keep="\n\t")))


def joined(*children: Child) -> Html:
    """Several values one after another."""
    return Html("".join(map(text, children)))


def tag(name: str, *children: Child, **attributes: Child | bool) -> Html:
    """An element; ``class_`` is ``class``, ``_`` stands for ``-``, None and False leave an attribute out.

    Names of elements and attributes are never taken from data.
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{_attribute(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{name}{written}>{joined(*children)}</{name}>")


def _attribute(value: Child) -> str:
    return html.escape(visible(str(value)))


def embedded_json(value: Any) -> Html:  # noqa: ANN401 - JSON
    """JSON for a script element of type application/json: nothing in it ends the element."""
    written = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return Html(written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def section(name: str, heading: str, *children: Child) -> Html:
    """A section of the page."""
    return tag("section", tag("h2", heading), *children, id=name)


def missing(why: str) -> Html:
    """Why something cannot be shown."""
    return tag("p", f"Not shown: {why}.", class_="missing")


def folded(heading: str, content: Html) -> Html:
    """Something that is shown on request."""
    return tag("details", tag("summary", heading), content)


def whole(
    title: str,
    body: Html,
    *,
    styles: Sequence[str],
    scripts: Sequence[str] = (),
    data: Mapping[str, Any] | None = None,
) -> str:
    """A page that needs nothing else, and in which nothing runs or loads but what is given.

    Args:
        title: of the window.
        body: what is shown.
        styles: CSS.
        scripts: JavaScript, run in this order when the body is there.
        data: JSON for them, the text of the element ``data``.
    """
    # What is not listed here cannot run or load, even if something of a recording got into the markup.
    policy = (
        f"default-src 'none'; img-src data:; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; "
        "base-uri 'none'; form-action 'none'"
    )
    head = joined(
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        tag("title", title),
        *(Html(f"<style>{text}</style>") for text in styles),
    )
    tail = joined(
        "" if data is None else tag("script", embedded_json(data), type="application/json", id="data"),
        *(Html(f"<script>{text}</script>") for text in scripts),
    )
    page = tag("html", tag("head", head), tag("body", body, tail), lang="en")
    return f"<!doctype html>\n{page}\n"


def _hashes(texts: Sequence[str]) -> str:
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
