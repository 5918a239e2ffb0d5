"""What a sequence's default components hold."""

from __future__ import annotations

import numpy as np
import pytest

from edgefirst_ros.formats.ncore.finish.components import stored_poses


def test_a_pose_that_its_type_cannot_hold_is_an_error() -> None:
    poses = np.tile(np.eye(4), (2, 1, 1))
    assert np.array_equal(stored_poses(poses, "float32"), poses)
    poses[1, 0, 3] = 1e39
    with pytest.raises(ValueError, match="float32"):
        stored_poses(poses, "float32")
