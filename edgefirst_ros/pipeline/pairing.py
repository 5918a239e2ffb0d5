"""What the configuration says about pairing, as the aligner takes it."""

from __future__ import annotations

from edgefirst_ros.config.model import Config, Required, TopicRule
from edgefirst_ros.sample import Role
from edgefirst_ros.timing.align import PairingRule
from edgefirst_ros.topics import CONTEXT_ROLES, EGO_ROLES


def pairing_rules(config: Config, reference_role: Role) -> dict[str, PairingRule]:
    """How every stream but the reference's pairs, by configured topic.

    A stream that none of the chosen formats makes samples of is not waited for, unless it is always required.
    """

    def required(rule: TopicRule) -> Required:
        return "never" if rule.required == "auto" and rule.role not in config.sample_roles else rule.required

    return {
        name: PairingRule(rule.tolerance_ns, rule.policy, required(rule))
        for name, rule in config.topics.items()
        if rule.topic
        and rule.role not in CONTEXT_ROLES | EGO_ROLES | {reference_role}
        and rule.tile in {"", "tl"}
    }


def reorder_window_ns(config: Config) -> int:
    """How long measurements wait for earlier ones, so that a sample is complete within the look-ahead."""
    reach_ns = max((r.tolerance_ns for r in config.topics.values()), default=0)
    return max(0, round(config.lookahead_s * 1e9) - reach_ns)
