"""A recording of an hour that takes no room on the disk, and a web server that says what was read of it."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from mcapbytes import BEGINNING, MAGIC, NOW_NS, channel, message, record, schema, text

CHUNKS = 3600
"""One a second."""
FILLER_BYTES = 500_000
LATCHED, FILLER, ONCE = 1, 2, 3
TOPICS = {LATCHED: "/tf_static", FILLER: "/filler", ONCE: "/once"}
_CHANNELS = schema(1, "std_msgs/msg/String") + b"".join(channel(n, 1, t) for n, t in TOPICS.items())
SECOND = 1_000_000_000


def write_hour(path: Path) -> list[tuple[int, int]]:
    """An hour of chunks with one filling message of zeros each; returns their places in the file."""
    places: list[tuple[int, int]] = []
    summary = [_CHANNELS]
    with path.open("wb") as file:
        file.write(BEGINNING)
        for second in range(CHUNKS):
            log_ns = NOW_NS + second * SECOND
            small = message(LATCHED, b"\0\1\0\0" + struct.pack("<I", second), log_ns)
            if not second:
                small = _CHANNELS + small + message(ONCE, b"\0\1\0\0once", log_ns)
            head = struct.pack("<BQHIQQ", 5, 22 + FILLER_BYTES, FILLER, second, log_ns + 1, log_ns + 1)
            size = len(small) + len(head) + FILLER_BYTES
            about = struct.pack("<QQQI", log_ns, log_ns + 1, size, 0) + text("") + struct.pack("<Q", size)
            start = file.tell()
            file.write(struct.pack("<BQ", 6, len(about) + size) + about + small + head)
            file.seek(FILLER_BYTES, 1)  # a hole reads as zeros
            places.append((start, file.tell()))
            numbers = (LATCHED, FILLER) if second else (LATCHED, FILLER, ONCE)
            offsets = b"".join(struct.pack("<HQ", number, file.tell()) for number in numbers)
            index = struct.pack("<QQQQI", log_ns, log_ns + 1, start, file.tell() - start, len(offsets))
            summary.append(
                record(8, index + offsets + struct.pack("<Q", 0) + text("") + struct.pack("<QQ", size, size))
            )
        file.write(record(15, struct.pack("<I", 0)))
        at = file.tell()
        counts = b"".join(struct.pack("<HQ", n, 1 if n == ONCE else CHUNKS) for n in TOPICS)
        file.write(b"".join(summary))
        times = NOW_NS, NOW_NS + CHUNKS * SECOND
        about = struct.pack("<QHIIIIQQI", 2 * CHUNKS + 1, 1, 3, 0, 0, CHUNKS, *times, len(counts))
        file.write(record(11, about + counts))
        file.write(record(2, struct.pack("<QQI", at, 0, 0)) + MAGIC)
    return places


@dataclass(slots=True)
class WebServer:
    """``url`` is that of the folder served; ``requests`` are the ranges asked for, with the bytes sent."""

    url: str
    requests: list[tuple[str, int]] = field(default_factory=list)

    @property
    def bytes_sent(self) -> int:
        return sum(sent for _, sent in self.requests)


@contextmanager
def web_server(folder: Path, *, ranges: bool = True) -> Iterator[WebServer]:
    """A server of files with ranges, as any web server has them, or without."""
    served = WebServer("")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, folder, served, ranges)) as server:
        served.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, folder: Path, served: WebServer, ranges: bool, *rest: object) -> None:
        self._folder, self._served, self._ranges = folder, served, ranges
        super().__init__(*rest)  # type: ignore[arg-type]

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        path = self._folder / self.path.strip("/")
        if not path.is_file():
            self.send_error(404)
            return
        size = path.stat().st_size
        wanted = self.headers.get("Range", "") if self._ranges else ""
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        begin = int(first) if first else max(0, size - int(last or size))
        end = min(size, int(last) + 1) if first and last else size
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{size}")
        self.send_header("Content-Length", str(end - begin))
        self.send_header("ETag", f'"{path.stat().st_mtime_ns}"')
        self.end_headers()
        with path.open("rb") as file:
            file.seek(begin)
            self.wfile.write(file.read(end - begin))
        self._served.requests.append((wanted, end - begin))
