"""NavSat, IMU or odometry to rig poses."""
