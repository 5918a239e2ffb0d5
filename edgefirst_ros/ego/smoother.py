"""The backward pass: the Rauch-Tung-Striebel smoother in the form of Bryson and Frazier."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from edgefirst_ros.ego.state import SIZE, Floats, Node, State

Later = tuple[Floats, Floats]
"""What later measurements say of a node: the adjoint (18,) and its covariance (18, 18)."""


def nothing() -> Later:
    """No later measurement."""
    return np.zeros(SIZE), np.zeros((SIZE, SIZE))


def smooth(nodes: Sequence[Node], later: Later | None = None) -> Iterator[tuple[Node, State, Floats, Later]]:
    """Every node with its state and covariance given all measurements, from the last to the first.

    The fourth is what a preceding piece of the same chain is to be given as ``later``.
    """
    adjoint, weight = nothing() if later is None else later
    for node in reversed(nodes):
        covariance = node.covariance
        correction = -(covariance @ adjoint)
        smoothed = covariance - covariance @ weight @ covariance
        state = node.state.moved(correction)
        for update in reversed(node.updates):
            kept = np.eye(SIZE) - update.gain @ update.jacobian
            told = update.jacobian.T @ update.information
            adjoint = kept.T @ adjoint - told @ update.innovation
            weight = kept.T @ weight @ kept + told @ update.jacobian
        if node.transition is None:
            adjoint, weight = nothing()
        else:
            adjoint = node.transition.T @ adjoint
            weight = node.transition.T @ weight @ node.transition
            weight = 0.5 * (weight + weight.T)
        yield node, state, smoothed, (adjoint, weight)
