"""Zenoh over TLS with user and password on loopback: through, or refused without showing a secret."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from livedrive import drive
from typer.testing import CliRunner
from zenoh_loopback import await_condition, free_endpoint, started

from edgefirst_ros.cli.app import app
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.sources.zenohlink import Outlet, load_zenoh_config, open_session, subscribe

SECRET = "s3cr3t-word"
"""In no output."""


def openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a CA, a certificate of 127.0.0.1 that it signed, and another CA."""
    # The command rather than a library: the systems on which this runs have it, and it adds no dependency.
    if shutil.which("openssl") is None:
        pytest.skip("no openssl command, which makes the certificates")
    folder = tmp_path_factory.mktemp("keys")
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for name in ("ca", "other"):
        files = ("-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem")
        openssl("req", "-x509", *kind, *files, "-days", "2", "-subj", f"/CN={name}")
    openssl("req", *kind, "-keyout", folder / "own.key", "-out", folder / "own.csr", "-subj", "/CN=device")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    signed = ("-CA", folder / "ca.pem", "-CAkey", folder / "ca.key", "-CAcreateserial", "-days", "2")
    made = ("-in", folder / "own.csr", "-out", folder / "own.pem", "-extfile", folder / "names")
    openssl("x509", "-req", *signed, *made)
    (folder / "users").write_text(f"alice:{SECRET}\n")
    return folder


def device(keys: Path) -> Path:
    """Configuration of a listener."""
    tls = {"listen_private_key": str(keys / "own.key"), "listen_certificate": str(keys / "own.pem")}
    users = {"user": "device", "password": "x", "dictionary_file": str(keys / "users")}
    return written(keys / "device.json5", tls, users)


def client(keys: Path, ca: str = "ca.pem", password: str = SECRET) -> Path:
    """Configuration of who connects."""
    users = {"user": "alice", "password": password}
    return written(
        keys / f"client-{ca}-{len(password)}.json5", {"root_ca_certificate": str(keys / ca)}, users
    )


def written(path: Path, tls: dict[str, str], users: dict[str, str]) -> Path:
    settings = {"transport": {"link": {"tls": tls}, "auth": {"usrpwd": users}}}
    path.write_text(f"// as Zenoh's documentation shows it\n{json.dumps(settings)}")
    return path


def tls_endpoint() -> str:
    return free_endpoint().replace("tcp/", "tls/")


def test_messages_come_through(keys: Path) -> None:
    endpoint = tls_endpoint()
    with (
        open_session([], [endpoint], device(keys)) as ours,
        open_session([endpoint], [], client(keys)) as theirs,
    ):
        seen: list[bytes] = []
        subscribe(theirs, "a/b", lambda found: seen.append(bytes(found.payload)))
        outlet = Outlet(ours, "a/b")
        await_condition("a subscriber", lambda: outlet.wanted)
        outlet.put("std_msgs/msg/String", b"hello")
        await_condition("the message", lambda: bool(seen))
    assert seen == [b"hello"]


def test_play_and_capture_take_it(keys: Path, tmp_path: Path) -> None:
    endpoint, output = tls_endpoint(), tmp_path / "out"
    source = ("play", drive(), "--zenoh-listen", endpoint, "--wait", "60", "--zenoh-config", device(keys))
    sink = ("capture", "--zenoh", endpoint, "-o", output, "--duration", "8", "--zenoh-config", client(keys))
    with started(tmp_path / "play", *source) as playing, started(tmp_path / "capture", *sink) as capture:
        assert playing.wait() == 0, playing.err
        assert capture.wait() == 0, capture.err
    (report,) = output.glob("edgefirst/*/capture_report.json")
    assert json.loads(report.read_bytes())["samples"] > 0


@pytest.mark.parametrize("command", ["capture", "play"])
@pytest.mark.parametrize("wrong", ["issuer", "file", "password"])
def test_who_is_refused_is_told_why(keys: Path, tmp_path: Path, command: str, wrong: str) -> None:
    ca, password, words = {
        "issuer": (
            "other.pem",
            SECRET,
            "trusted connection: .*UnknownIssuer hint: look at transport/link/tls in ",
        ),
        "file": ("none.pem", SECRET, "no trusted connection: .*No such file"),
        "password": ("ca.pem", SECRET[:-1], r"another user or password \(transport/auth/usrpwd in .*client"),
    }[wrong]
    endpoint = tls_endpoint()
    first = [str(drive())] if command == "play" else ["-o", str(tmp_path / "out")]
    rest = ["--zenoh", endpoint, "--zenoh-config", str(client(keys, ca, password))]
    with open_session([], [endpoint], device(keys)):
        done = CliRunner().invoke(app, [command, *first, *rest])
    assert done.exit_code == 2
    assert re.search(words, re.sub(r"\s+", " ", done.output)), done.output
    assert password not in done.output
    assert ".rs" not in done.output
    assert not (tmp_path / "out").exists()


def test_without_configuration_nobody_trusts_an_unknown_certificate(keys: Path, tmp_path: Path) -> None:
    endpoint = tls_endpoint()
    with open_session([], [endpoint], device(keys)):
        done = CliRunner().invoke(app, ["capture", "-o", str(tmp_path / "out"), "--zenoh", endpoint])
    assert done.exit_code == 2
    assert "with --zenoh-config FILE" in re.sub(r"\s+", " ", done.output)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("z.json5", '{"mod": "peer"}', "z.json5: mod: Zenoh knows no such key"),
        ("z.yaml", "mod: peer", "z.yaml: mod: Zenoh knows no such key"),
        ("z.json5", "{transport:{auth:{usrpwd:{pasword:'WORD'}}}} // c", "usrpwd/pasword: Zenoh knows"),
        ("z.json5", '{transport:{auth:{usrpwd:{user:"a",password:["WORD"]}}}}', "usrpwd/password: Zenoh"),
        ("z.yaml", "transport: {auth: {usrpwd: {user: a, password: [WORD]}}}", "usrpwd/password: Zenoh"),
        ("z.json5", '{transport:{auth:{usrpwd:{password:"WORD}}}}', "z.json5, line 1, column"),
        ("z.yaml", "password: [WORD", "z.yaml, line 1: cannot be read as YAML"),
        ("z.json5", '{transport:{auth:{usrpwd:{password:"WORD"}}}}', "a password needs a user"),
        ("z.yaml", "WORD", "holds no values by name"),
        ("z.json5", "[" * 20_000, "z.json5"),
        ("z.yaml", "[" * 20_000, "z.yaml"),
        ("z.yaml", "a: &a {b: *a}", "cannot be read as YAML"),
        ("z.yaml", "a: 1\nb: !!bool WORD", "line 2: cannot be read as YAML"),
    ],
)  # fmt: skip
def test_a_fault_names_file_and_key_but_no_value(tmp_path: Path, name: str, content: str, words: str) -> None:
    (tmp_path / name).write_text(content.replace("WORD", SECRET))
    with pytest.raises(ConfigError) as raised:
        load_zenoh_config(tmp_path / name)
    (fault,) = raised.value.faults
    assert words in fault
    assert SECRET not in fault
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("name", ["deep.json5", "deep.yaml"])
@pytest.mark.parametrize("text", ["[" * 100_000, '{"mode":' * 100_000, "/*" + "[" * 100_000])
def test_brackets_that_would_crash_zenoh_are_refused_before(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=r"brackets|cannot be read as YAML"):
        load_zenoh_config(tmp_path / name)


def test_keys_in_an_endpoint_are_not_shown() -> None:
    with pytest.raises(ConfigError) as raised:
        open_session([f"Tls/x#listen_private_key_base64={SECRET}"], [])
    assert SECRET not in str(raised.value)
