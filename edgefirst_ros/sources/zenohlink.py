"""The Zenoh API as far as it is used here: sessions, subscriptions and publishers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

from edgefirst_ros.errors import ConfigError, TransportError, extra

with extra("zenoh"):
    import zenoh

CDR = "application/cdr"
_ENDPOINT = re.compile(r"[a-z][a-z0-9_-]*/\S+")
_RETRY = {"period_init_ms": 250, "period_max_ms": 2000, "period_increase_factor": 2}


def open_session(connect: Sequence[str], listen: Sequence[str]) -> zenoh.Session:
    """Open a peer that connects to some endpoints, retrying forever, and listens on others.

    Multicast scouting is off, so it only talks to these endpoints and to peers that they know.

    Args:
        connect: endpoints such as ``tcp/192.168.1.5:7447``.
        listen: endpoints such as ``tcp/[::]:7447``.

    Raises:
        ConfigError: an endpoint is malformed, or there is none.
        TransportError: an endpoint cannot be listened on.
    """
    faults = [
        f"Zenoh endpoint {endpoint!r}: expected PROTOCOL/ADDRESS, e.g. tcp/192.168.1.5:7447"
        for endpoint in (*connect, *listen)
        if not _ENDPOINT.fullmatch(endpoint)
    ]
    if not connect and not listen:
        faults.append("no Zenoh endpoint: give one to connect to (--zenoh) or to listen on (--zenoh-listen)")
    if faults:
        raise ConfigError(faults)
    settings = {
        "mode": "peer",
        "scouting/multicast/enabled": False,
        "connect/endpoints": list(connect),
        "connect/timeout_ms": -1,
        "connect/exit_on_failure": False,
        "connect/retry": _RETRY,
        "listen/endpoints": list(listen),
        "listen/timeout_ms": 0,
        "listen/exit_on_failure": True,
    }
    config = zenoh.Config()
    try:
        for key, value in settings.items():
            config.insert_json5(key, json.dumps(value))
        return zenoh.open(config)
    except zenoh.ZError as error:
        shown = ", ".join([*connect, *(f"{endpoint} (listening)" for endpoint in listen)])
        raise TransportError(f"Zenoh cannot use {shown}: {error}") from error


def subscribe(
    session: zenoh.Session, key: str, callback: Callable[[zenoh.Sample], None]
) -> zenoh.Subscriber[None]:
    """Call ``callback`` for every sample in the receiving thread, which keeps the order across keys.

    Raises:
        ConfigError: the key is not a valid key expression.
    """
    try:
        expression = zenoh.KeyExpr(key)
    except zenoh.ZError as error:
        raise ConfigError([f"{key!r} is not a Zenoh key expression: {error}"]) from error
    # Not indirect: one thread per subscription would change the order of messages.
    return session.declare_subscriber(expression, zenoh.handlers.Callback(callback, _nothing, indirect=False))


def _nothing() -> None:
    """Called when a subscription ends."""


def key_includes(key: str, other: str) -> bool:
    """Whether a key expression includes another one."""
    return bool(zenoh.KeyExpr(key).includes(zenoh.KeyExpr(other)))


def is_put(sample: zenoh.Sample) -> bool:
    """Whether a sample is a message rather than a deletion."""
    return sample.kind == zenoh.SampleKind.PUT


class Outlet:
    """Publishes CDR messages under one key; blocks when the network is congested."""

    def __init__(self, session: zenoh.Session, key: str) -> None:
        self._publisher = session.declare_publisher(key, congestion_control=zenoh.CongestionControl.BLOCK)

    @property
    def wanted(self) -> bool:
        """Whether the key has a subscriber."""
        status: object = self._publisher.matching_status
        # Annotated as bool, but in fact an object that is always true.
        return bool(getattr(status, "matching", status))

    def put(self, schema: str, data: bytes) -> None:
        """Publish one message of type ``pkg/msg/Type``, without a Zenoh timestamp."""
        self._publisher.put(data, encoding=zenoh.Encoding(CDR).with_schema(schema))
