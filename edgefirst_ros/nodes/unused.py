"""Which topics of a graph are recorded although nothing uses them; knows nothing of rclpy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from edgefirst_ros.nodes.candidates import Offer
from edgefirst_ros.nodes.discovery import Feed


def unused_feeds(
    announced: Iterable[tuple[str, Sequence[str]]],
    *,
    used: Collection[str],
    own: str,
    root: str,
    anywhere: bool,
    wanted: Callable[[str, str], bool],
    offers: Callable[[str], Sequence[Offer]],
    installed: Callable[[str], bool],
) -> set[Feed]:
    """Subscriptions to what is published and of no use to the configuration.

    Args:
        announced: names and types of the graph.
        used: names that are subscribed to anyway.
        own: the node's own name: what it publishes itself is not recorded.
        root: the device's topics are below this name; recordings have them without it.
        anywhere: other topics count as well.
        wanted: whether a topic, by its name in recordings, of a type is to be recorded.
        offers: who publishes a topic.
        installed: whether a type can be subscribed to here.
    """
    inside = f"{root.rstrip('/')}/"
    feeds: set[Feed] = set()
    for topic, kinds in announced:
        if topic in used or topic.startswith(f"{own}/") or not (anywhere or topic.startswith(inside)):
            continue
        canonical = f"/{topic.removeprefix(inside)}" if topic.startswith(inside) else topic
        for kind in kinds:
            if not wanted(canonical, kind) or not installed(kind):
                continue
            same = [offer for offer in offers(topic) if offer.type == kind]
            if same:
                # One that does not keep them cannot be heard by who asks for what is kept.
                feeds.add(Feed(topic, kind, canonical, latched=all(offer.latched for offer in same)))
    return feeds
