"""The Zenoh API as far as it is used here: sessions, subscriptions and publishers.

A Zenoh configuration file (TLS, user, password, ...), whose faults are reported without its secrets.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from edgefirst_ros.config.yamltext import parse_yaml, read_named
from edgefirst_ros.model.errors import ConfigError, TransportError, extra

with extra("zenoh"):
    import zenoh
    from zenoh import ext

_TOKEN = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(//[^\n]*|/\*.*?\*/|\t)|(:)""", re.S)
"""Strings, comments and colons of JSON5."""
_MOST_NESTED = 2000
"""Some ten thousand brackets in one another crash Zenoh, and this process."""
_PLACE = re.compile(r"--> (\d+):(\d+)")
_UNKNOWN = re.compile(r"unknown field `([^`]*)`")


def load_zenoh_config(path: Path) -> zenoh.Config:
    """The configuration in a file, JSON5 or, by its ending, YAML, as Zenoh itself takes it.

    Raises:
        ConfigError: the file cannot be read, or Zenoh does not take a value, whose key is named; no value is
            shown, as it may be a secret.
    """
    text = read_named(path)
    if path.suffix.lower() not in {".yaml", ".yml"}:
        return _parsed(path, text, text)
    try:
        json5 = json.dumps(parse_yaml(text), default=str)
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise ConfigError([f"{path}{line}: cannot be read as YAML"]) from None
    return _parsed(path, json5, text)


def _parsed(path: Path, json5: str, text: str) -> zenoh.Config:
    # Wherever they close: what is a comment or a string to Zenoh is not known before it reads the text.
    if json5.count("[") + json5.count("{") > _MOST_NESTED:
        raise ConfigError([f"{path}: has more than {_MOST_NESTED:,} opening brackets"])
    try:
        return zenoh.Config.from_json5(json5)
    except zenoh.ZError as error:
        said = str(error)
    # Not chained: what Zenoh says shows the line, or the value.
    if place := _PLACE.search(said):
        raise ConfigError([f"{path}, line {place[1]}, column {place[2]}: cannot be read as JSON5"])
    data = _mapping(text)
    if not isinstance(data, Mapping):
        raise ConfigError([f"{path}: holds no values by name"])
    faults = [f"{path}: {key}: {what}" for key, what in _faults(data, ())]
    if not faults and (unknown := _UNKNOWN.search(said)):
        faults = [f"{path}: {unknown[1]}: Zenoh knows no such key"]
    raise ConfigError(
        faults
        or [f"{path}: Zenoh rejects it; a password needs a user, and a user needs a password or a dictionary"]
    )


def _mapping(text: str) -> Any:  # noqa: ANN401 - whatever the file holds
    """The file's content as far as YAML can read it, into which JSON5 is turned; else None."""
    spaced = _TOKEN.sub(lambda found: found[1] or (" " if found[2] else ": "), text)
    for each in (spaced, text):
        try:
            return parse_yaml(each)
        except yaml.YAMLError:
            continue
    return None


def _faults(data: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - see above
    """Each key that Zenoh does not take, and why."""
    if isinstance(data, Mapping):
        for name, value in data.items():
            yield from _faults(value, (*path, str(name)))
        return
    key = "/".join(path)
    try:
        zenoh.Config().insert_json5(key, json.dumps(data, default=str))
    except zenoh.ZError as error:
        unknown = "unknown key" in str(error)
        yield key, "Zenoh knows no such key" if unknown else "Zenoh rejects this value"


CDR = "application/cdr"
_HOST = re.compile(r"[a-z0-9_-]+/\[?(?P<host>[^\]/?#]+?)\]?(:\d+)?([?#].*)?")
_ENDPOINT = re.compile(r"[a-z][a-z0-9_-]*/\S+")
LARGEST, LARGEST_MB = "transport/link/rx/max_message_size", 256
"""Zenoh drops larger messages without a word, before they take memory; a raw picture of 8K with three times
16 bits has 200 MB. A configuration file may set another limit."""
CLOSING_S = 0.2
"""Zenoh closes a session in milliseconds, but waits ten seconds for a peer that never answers."""
MOST_PEERS = 64
LONGEST_TYPE = 200
"""Bytes of a type's name that are sent; Zenoh has room for 255 with what is before it."""
_RETRY = {"period_init_ms": 250, "period_max_ms": 2000, "period_increase_factor": 2}
_ADDRESS = re.compile(
    r"(?:tcp|tls)/(?:\[(?P<bracketed>[^\]]+)\]|(?P<host>[^\]/?#:]+)):(?P<port>\d{1,5})(?:[?#]\S*)?"
)
_REACH_S = 2.0
_WHERE = re.compile(r" at /\S+?\.rs:\d+\.?|#\S*(?=:)")
"""What of Zenoh's errors is of its source code, or may hold keys."""
_UNTRUSTED = re.compile(r"certificate|TLS|alert|root_ca|No such file", re.I)
_TURNED_AWAY = re.compile(r"Received a close message")


def open_session(
    connect: Sequence[str], listen: Sequence[str], config_file: Path | None = None
) -> zenoh.Session:
    """Open a peer that connects to some endpoints, retrying forever, and listens on others.

    Multicast scouting and the admin space are off unless the file turns them on, so it only talks to these
    endpoints and to peers that they know, and answers no queries.

    Args:
        connect: endpoints such as ``tcp/192.168.1.5:7447``; they replace those of the file.
        listen: endpoints such as ``tcp/[::]:7447``; likewise.
        config_file: a configuration as Zenoh takes it, for TLS, user and password.

    Raises:
        ConfigError: an endpoint is malformed, there is none, or the file has faults.
        TransportError: an endpoint cannot be listened on, or refuses certificate, user or password.
    """
    faults = [
        f"Zenoh endpoint {_public(endpoint)!r}: expected PROTOCOL/ADDRESS, e.g. tcp/192.168.1.5:7447"
        for endpoint in (*connect, *listen)
        if not _ENDPOINT.fullmatch(endpoint)
    ]
    config = zenoh.Config() if config_file is None else load_zenoh_config(config_file)
    connect = [*(connect or _endpoints(config, "connect"))]
    listen = [*(listen or _endpoints(config, "listen"))]
    if not connect and not listen:
        faults.append("no Zenoh endpoint: give one to connect to (--zenoh) or to listen on (--zenoh-listen)")
    if faults:
        raise ConfigError(faults)
    try:
        if config.get_json("mode") == "null":
            config.insert_json5("mode", json.dumps("peer"))
        if config.get_json("scouting/multicast/enabled") == "null":
            config.insert_json5("scouting/multicast/enabled", "false")
        if config.get_json("adminspace/enabled") == zenoh.Config().get_json("adminspace/enabled"):
            # Off, too, in versions in which it may be on: it answers peers with the whole configuration.
            config.insert_json5("adminspace/enabled", "false")
        if config_file is not None or any(endpoint.startswith("tls/") for endpoint in connect):
            _refuse_early(config, connect, config_file)
        _set_endpoints(config, connect, listen)
        return zenoh.open(config)
    except zenoh.ZError as error:
        shown = ", ".join(map(_public, [*connect, *(f"{endpoint} (listening)" for endpoint in listen)]))
        raise TransportError(f"Zenoh cannot use {shown}: {_plain(error)}") from error


def close_session(session: zenoh.Session) -> None:
    """Close a session, within ``CLOSING_S``: what is left then goes on in the background."""
    closing = threading.Thread(target=session.close, name="zenoh-close", daemon=True)
    closing.start()
    closing.join(CLOSING_S)


@contextmanager
def linked(
    connect: Sequence[str], listen: Sequence[str], config_file: Path | None = None
) -> Iterator[zenoh.Session]:
    """A session as ``open_session`` opens it, closed at the end by ``close_session``."""
    session = open_session(connect, listen, config_file)
    try:
        yield session
    finally:
        close_session(session)


def connections(session: zenoh.Session) -> int:
    """Number of routers and peers that are connected now."""
    info = session.info
    return len(info.routers_zid()) + len(info.peers_zid())


def alone(connect: Sequence[str] | None, listen: Sequence[str] | None) -> str:
    """That there was no connection over these endpoints, in words."""
    there, here = (", ".join(map(_public, each or ())) for each in (connect, listen))
    if here and not there:
        return f"nobody connected to {here}"
    return f"never connected ({there})" if there else "never connected"


def host_of(endpoints: Sequence[str]) -> str:
    """The host name in the first endpoint's address; empty without one."""
    found = _HOST.fullmatch(endpoints[0]) if endpoints else None
    return found["host"].removesuffix(".local") if found else ""


def _endpoints(config: zenoh.Config, side: str) -> list[str]:
    """Endpoints to connect to or to listen on that a file gives for a peer; Zenoh's own defaults are none."""
    found = json.loads(config.get_json(f"{side}/endpoints"))
    if found == json.loads(zenoh.Config().get_json(f"{side}/endpoints")):
        return []
    if isinstance(found, dict):
        found = found.get(json.loads(config.get_json("mode")) or "peer") or []
    return [found] if isinstance(found, str) else [str(each) for each in found]


def _set_endpoints(
    config: zenoh.Config, connect: Sequence[str], listen: Sequence[str], *, once: bool = False
) -> None:
    settings = {
        "connect/endpoints": list(connect),
        "connect/timeout_ms": 0 if once else -1,
        "connect/exit_on_failure": once,
        "connect/retry": _RETRY,
        "listen/endpoints": list(listen),
        "listen/timeout_ms": 0,
        "listen/exit_on_failure": True,
        LARGEST: LARGEST_MB << 20,
        "transport/unicast/max_sessions": MOST_PEERS,
        # Segments of peers that died are never released.
        "transport/shared_memory/enabled": False,
    }
    if config.get_json(LARGEST) != zenoh.Config().get_json(LARGEST):
        del settings[LARGEST]
    for key, value in settings.items():
        config.insert_json5(key, json.dumps(value))


def _refuse_early(config: zenoh.Config, connect: Sequence[str], config_file: Path | None) -> None:
    """Try each endpoint that can be reached once: what it refuses now, it would refuse forever.

    Raises:
        TransportError: certificate, user or password are refused.
    """
    place = f" in {config_file}" if config_file else ", with --zenoh-config FILE"
    for endpoint in connect:
        if not _answers(endpoint):
            continue
        _set_endpoints(config, [endpoint], [], once=True)
        try:
            zenoh.open(config).close()  # type: ignore[no-untyped-call]
        except zenoh.ZError as error:
            said = _plain(error)
            if _TURNED_AWAY.search(said):
                raise TransportError(
                    f"{_public(endpoint)} refuses the connection: it expects another user or password "
                    f"(transport/auth/usrpwd{place}), or accepts no more peers"
                ) from None
            if _UNTRUSTED.search(said) and "Connection refused" not in said:
                raise TransportError(
                    f"{_public(endpoint)}: no trusted connection: {said}; look at transport/link/tls{place}: "
                    "root_ca_certificate must have signed its certificate, which must bear its name"
                ) from None


def _answers(endpoint: str) -> bool:
    found = _ADDRESS.fullmatch(endpoint)
    if found is None:
        return False
    with (
        suppress(OSError),
        socket.create_connection((found["bracketed"] or found["host"], int(found["port"])), _REACH_S),
    ):
        return True
    return False


def _public(endpoint: str) -> str:
    """An endpoint without its settings, which may be keys."""
    return endpoint.partition("#")[0]


def _plain(error: zenoh.ZError) -> str:
    return _WHERE.sub("", str(error)).rstrip(". ")


def subscribe(
    session: zenoh.Session, key: str, callback: Callable[[zenoh.Sample], None], *, latched: bool = False
) -> zenoh.Subscriber[None] | ext.AdvancedSubscriber[None]:
    """Call ``callback`` for every message in the receiving thread, which keeps the order across keys.

    Args:
        session: see ``open_session``.
        key: a key expression.
        callback: must not block.
        latched: also ask for what publishers that keep it sent before, as bridges do of latched topics.

    Raises:
        ConfigError: the key is not a valid key expression.
    """
    try:
        expression = zenoh.KeyExpr(key)
    except zenoh.ZError as error:
        raise ConfigError([f"{key!r} is not a Zenoh key expression: {_plain(error)}"]) from error

    def take(sample: zenoh.Sample) -> None:
        if sample.kind == zenoh.SampleKind.PUT:  # rather than a deletion
            callback(sample)

    # Not indirect: one thread per subscription would change the order of messages.
    handler = zenoh.handlers.Callback(take, lambda: None, indirect=False)
    if not latched:
        return session.declare_subscriber(expression, handler)
    history = ext.HistoryConfig(detect_late_publishers=True)
    return ext.declare_advanced_subscriber(session, expression, handler, history=history)


def key_includes(key: str, other: str) -> bool:
    """Whether a key expression includes another one."""
    return bool(zenoh.KeyExpr(key).includes(zenoh.KeyExpr(other)))


class Outlet:
    """Publishes CDR messages under one key; blocks when the network is congested.

    Raises:
        ConfigError: the key is not valid.
    """

    def __init__(self, session: zenoh.Session, key: str) -> None:
        try:
            self._publisher = session.declare_publisher(key, congestion_control=zenoh.CongestionControl.BLOCK)
        except zenoh.ZError as error:
            raise ConfigError([f"{key!r} cannot be a Zenoh key: {_plain(error)}"]) from error

    @property
    def wanted(self) -> bool:
        """Whether the key has a subscriber."""
        status: object = self._publisher.matching_status
        # Annotated as bool, but in fact an object that is always true.
        return bool(getattr(status, "matching", status))

    def put(self, schema: str, data: bytes) -> None:
        """Publish one message of type ``pkg/msg/Type``, without a Zenoh timestamp."""
        # A longer one makes Zenoh panic, whatever the recording says that it is from.
        shown = schema if len(schema.encode()) <= LONGEST_TYPE else ""
        self._publisher.put(data, encoding=zenoh.Encoding(CDR).with_schema(shown))
