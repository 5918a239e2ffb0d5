"""What the nodes can be told besides the configuration."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

TOPIC = re.compile(r"(~?/)?[A-Za-z_]\w*(/[A-Za-z_]\w*)*", re.ASCII)
"""A name in the graph: absolute, in the namespace of the node, or below the node."""
STRICT = ConfigDict(extra="forbid", frozen=True, validate_default=True)


def _tf_topic(name: str) -> str:
    if name and not TOPIC.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a topic; expected one like /tf_static, or nothing")
    return name


class CaptureOptions(BaseModel):
    """Parameters of the capture node that are not the pipeline's."""

    model_config = STRICT

    output: str = Field("", description="Folder that sessions are written below. Must be given.")
    name: str = Field(
        "",
        description="Name of the dataset; empty makes hostname_date_time-dataset. A name can be used once.",
    )
    session: str = Field("", description="Name of the session, a sequence; empty makes hostname_date_time.")
    depth: int = Field(
        0,
        ge=0,
        le=10_000,
        description="Messages of every topic that the middleware keeps for us; 0 keeps of each what comes "
        "in 2 s at its expected_hz, and at least 60, of compressed pictures 120, of IMU, GPS and tf 1000.",
    )
    unlisted: bool = Field(
        True,
        description="Subscribe to the device's topics before anybody announces them: a bridge to a Maivin "
        "makes a route only when there is a subscriber.",
    )
    look_every_s: float = Field(1.0, ge=0.1, le=60.0, description="How often the graph is looked at.")
    stop_within_s: float = Field(
        2.5,
        ge=0.1,
        le=60.0,
        description="Within this everything queued is written and finished at the end; the rest is dropped, "
        "and counted.",
    )
    preview: bool = Field(False, description="Publish each sample on ~/preview/... for RViz and Foxglove.")
    tf_topic: Annotated[str, AfterValidator(_tf_topic)] = Field(
        "/tf_static",
        description="Where the sensors' places are published for previews, as tf2 reads them, unless "
        "somebody else publishes tf2_msgs/TFMessage there; empty: nowhere.",
    )
    start_paused: bool = Field(
        False, description="Sessions begin paused: nothing is written before the service ~/resume is called."
    )
    bond_heartbeat_period: float = Field(
        0.1,
        ge=0.0,
        le=2.0,
        description="While active, seconds between heartbeats to a nav2_lifecycle_manager, as its own nodes "
        "have it; 0: no bond. Needs the package bond; without it set bond_timeout: 0.0 in the manager.",
    )
    autostart: bool = Field(
        False,
        description="Configure and activate by itself; what prevents it ends the node with exit code 2.",
    )

    @field_validator("output")
    @classmethod
    def _named(cls, output: str) -> str:
        if not output.strip():
            raise ValueError("name a folder that sessions are written below")
        return output


class ReplayOptions(BaseModel):
    """Parameters of the replay node that are not the pipeline's."""

    model_config = STRICT

    bag: list[str] = Field([], description="Recordings (MCAP files, or folders of them). Must be given.")
    output: str = Field("", description="Folder that the dataset is written below. Must be given.")
    name: str = Field("", description="Name of the dataset; empty takes the first recording's.")
    overwrite: bool = Field(
        False, description="Replace a dataset of that name, once the new one is complete."
    )
    rate: float = Field(
        0.0, ge=0.0, description="Pace: 1 is the recording's own, 2 twice as fast, 0 as fast as it goes."
    )
    preview: bool = Field(False, description="Publish each sample on ~/preview/... for RViz and Foxglove.")
    tf_topic: Annotated[str, AfterValidator(_tf_topic)] = Field(
        "/tf_static",
        description="Where the sensors' places are published for previews, as tf2 reads them, unless "
        "somebody else publishes tf2_msgs/TFMessage there; empty: nowhere.",
    )

    @field_validator("output")
    @classmethod
    def _named(cls, output: str) -> str:
        if not output.strip():
            raise ValueError("name a folder that the dataset is written below")
        return output

    @field_validator("bag")
    @classmethod
    def _given(cls, bag: list[str]) -> list[str]:
        if not any(path.strip() for path in bag):
            raise ValueError("name at least one recording")
        return bag


NAMES = frozenset(CaptureOptions.model_fields) | frozenset(ReplayOptions.model_fields)
"""Of both nodes: one file may serve both, so each passes over what is the other's."""
READ_ONLY = frozenset({"look_every_s", "autostart"})
"""Fixed when the node is made."""
LIVE = frozenset({"preview", "stop_within_s"})
"""May change while a session is under way."""
OTHERS = ("use_sim_time", "start_type_description_service", "qos_overrides.")
"""Parameters that rclpy declares by itself."""
