"""One video topic of one sequence: which packets are usable, and their pictures on demand."""

from __future__ import annotations

from concurrent.futures import Future

from edgefirst_ros.messages.camera import VideoPacket
from edgefirst_ros.video.picture import Picture


class VideoStream:
    """Decodes what is asked for, and says of every packet whether its picture can be trusted.

    All methods but the futures' own belong to one calling thread; decoding runs on the stream's own.

    Args:
        topic: named in errors.
        workers: decoder threads, at most.
    """

    def __init__(self, topic: str, *, workers: int = 1) -> None:
        self._topic = topic
        self._workers = workers

    def push(self, key: int, time_ns: int, packet: VideoPacket) -> bool:
        """Take one packet in order of arrival; True if it is a key frame."""
        raise NotImplementedError

    def verdict(self, time_ns: int) -> str | None:
        """None if the packet of that time is usable, else a short countable reason; in order of time."""
        raise NotImplementedError

    def request(self, time_ns: int) -> Future[Picture]:
        """The picture of a usable packet; in order of time, the same time twice gives the same future."""
        raise NotImplementedError

    def release(self, time_ns: int) -> None:
        """No frame at or before this time will be asked for any more."""
        raise NotImplementedError

    def close(self) -> None:
        """Decode what is still requested and stop; every future is resolved."""
        raise NotImplementedError
