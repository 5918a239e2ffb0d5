"""Annex-B byte streams: NAL units and key frames, told from the headers alone."""

from __future__ import annotations

from edgefirst_ros.messages.camera import VideoPacket


def is_keyframe(packet: VideoPacket) -> bool:
    """Whether decoding can start at this access unit."""
    raise NotImplementedError
