"""Poses of the rig from NavSat, IMU and odometry."""
