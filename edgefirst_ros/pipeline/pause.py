"""A paused live session: nothing is written, every message is counted, calibration is kept up to date."""

from __future__ import annotations

from edgefirst_ros.config.model import Config
from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.measurement import Measurement, RawMessage
from edgefirst_ros.messages.reasons import Reason
from edgefirst_ros.messages.registry import decode
from edgefirst_ros.pipeline.context import SampleContext
from edgefirst_ros.pipeline.envelope import unwanted
from edgefirst_ros.pipeline.job import Job
from edgefirst_ros.pipeline.ledger import Stage
from edgefirst_ros.sample import Calibration
from edgefirst_ros.topics import CONTEXT_ROLES, TopicMap, full_type


class Pause:
    """Ends the sequence under way; ``resume`` begins another one in the same session.

    So no sample pairs across the pause, no pose is carried over it, and video begins at the next key frame
    or recovery point. Messages during the pause count as skipped; calibration, which a robot may send only
    once (tf_static, CameraInfo), is taken.

    Args:
        job: of the session.
        config: whole.
        host: of the session.
        sequence: name of the session's first sequence.
    """

    def __init__(self, job: Job, config: Config, host: str, sequence: str) -> None:
        self._pipeline = job.pipeline
        self._host = host
        self._sequence = sequence
        self._routes = TopicMap(config, config.prefix or "")
        self._pipeline.end_source(Reason.PAUSED)
        known = self._pipeline.calibration
        self._context = SampleContext(config.ego, has_ego=False, odometry=False, known=known)

    @property
    def calibration(self) -> Calibration:
        """Known now."""
        return self._context.calibration

    def take(self, message: RawMessage) -> None:
        """Count a message, and take its calibration."""
        schema = full_type(message.schema)
        ledger = self._pipeline.ledger
        ticket = ledger.receive(message.topic, schema, len(message.data), message.receive_ns)
        route = self._routes.route(message.topic)
        refusal = unwanted(message, schema, route)
        if refusal is not None or route is None:
            ledger.release(ticket, *(refusal or (Stage.SKIPPED, Reason.PAUSED)), unplaced=True)
            return
        if route.rule.role not in CONTEXT_ROLES:
            ledger.release(ticket, Stage.SKIPPED, Reason.PAUSED, unplaced=True)
            return
        try:
            decoded = decode(message)
        except DecodeError as error:
            ledger.release(ticket, Stage.REFUSED, str(error), unplaced=True)
            return
        measurement = Measurement(
            message.topic,
            message.receive_ns,
            decoded.stamp_ns,
            message.receive_ns,
            message.arrival,
            decoded.frame_id,
            decoded.datum,
        )
        wrong = self._context.learn(measurement)
        if wrong is not None:
            ledger.release(ticket, Stage.REFUSED, wrong, unplaced=True)
        else:
            ledger.release(ticket, Stage.DECODED, unplaced=True)

    def resume(self) -> str:
        """Let the next message begin another sequence; returns its name."""
        before = len(self._pipeline.sequences)
        name = self._sequence if not before else f"{self._sequence}_part{before + 1}"
        self._pipeline.begin_source(None, self._host, name, calibration=self.calibration)
        return name
