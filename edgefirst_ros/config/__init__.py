"""Configuration: one validated model behind the command line, YAML files and ROS parameters."""
