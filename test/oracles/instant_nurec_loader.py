"""Run by an interpreter that has instant-nurec: what its loader makes of the first frames of a sequence.

python instant_nurec_loader.py SEQUENCE_META_JSON CAMERA...
"""

from __future__ import annotations

import json
import sys

from instant_nurec.config_schema.dataset import NCoreInstantNuRecDatasetConfig
from instant_nurec.datasets.instantnurec_ncore import NCoreInstantNuRecDataset


def main(meta: str, cameras: list[str]) -> None:
    """Print it as JSON."""
    config = NCoreInstantNuRecDatasetConfig(
        ncore_json_paths=[meta], context_camera_ids=cameras, supervision_camera_ids=cameras
    )
    dataset = NCoreInstantNuRecDataset(config, frame_width=784, frame_height=448, n_frames_per_sample=18)
    batch = dataset[0]
    (rig,) = batch.context_rig
    (way,) = rig.rig_trajectories
    calibrations = {
        name: {
            "T_sensor_rig": one.T_sensor_rig.tolist(),
            **{
                key: getattr(one.camera_model_parameters, key).tolist()
                for key in ("resolution", "focal_length", "principal_point")
            },
        }
        for name, one in rig.camera_calibrations.items()
    }
    (tracks,) = batch.cuboid_tracks
    found = {
        "samples": len(dataset),
        "calibrations": calibrations,
        "times_us": {name: times.tolist() for name, times in way.cameras_frame_timestamps_us.items()},
        "poses_us": way.T_rig_world_timestamps_us.tolist(),
        "travelled_m": float((way.T_rig_worlds[1:, :3, 3] - way.T_rig_worlds[:-1, :3, 3]).norm(dim=1).sum()),
        "pictures": list(batch.context[0].data.camera.labels.rgb.shape),
        "tracks_m": tracks.cuboidtracks_data.cuboids_dims.tolist(),
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
