"""What else is published over Zenoh while what is wanted does not come: for hints."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from edgefirst_ros.config.model import Config
from edgefirst_ros.hints import FIRST_S, Seen, explicit_entries
from edgefirst_ros.sources.zenohlink import key_includes, subscribe
from edgefirst_ros.topics import full_type, reference_role

if TYPE_CHECKING:
    import zenoh

LOOK_S, MOST = 2.0, 256
"""How long is looked, and so many topics are kept."""


class Surroundings:
    """Looks once, for a moment, what else is published, if the reference or a chosen role does not come.

    Everything is sent to us meanwhile, of which names and types are kept.

    Args:
        session: see ``zenohlink.open_session``.
        config: says what is wanted.
        keys: key expressions that are subscribed to.
    """

    def __init__(self, session: zenoh.Session, config: Config, keys: Sequence[str]) -> None:
        self._session = session
        self._keys = keys
        roles = {config.topics[entry].role for entry in explicit_entries(config)}
        self._wanted = {role.value for role in (*roles, reference_role(config))}
        self._found: dict[str, str] = {}
        self._look: zenoh.Subscriber[None] | None = None
        self._until_s: float | None = None

    def around(self) -> list[Seen]:
        """What else is published, as far as it was looked for; any thread."""
        return [Seen(topic, kind) for topic, kind in self._found.copy().items()]

    def watch(self, silent: Collection[str], elapsed_s: float) -> None:
        """Begin and end the look, when it is time; called now and then.

        Args:
            silent: roles that nothing has come of.
            elapsed_s: how long the session has gone on.
        """
        now_s = time.monotonic()
        if self._until_s is None and elapsed_s >= FIRST_S and self._wanted & set(silent):
            self._until_s = now_s + LOOK_S
            self._look = subscribe(self._session, "**", self._hear)
        elif self._look is not None and self._until_s is not None and now_s > self._until_s:
            self._look.undeclare()  # type: ignore[no-untyped-call]  # zenoh annotates no return
            self._look = None

    def _hear(self, sample: zenoh.Sample) -> None:
        key = str(sample.key_expr)
        if len(self._found) < MOST and not any(key_includes(each, key) for each in self._keys):
            self._found[f"/{key}"] = full_type(str(sample.encoding).partition(";")[2])
