"""Files on disk: paths, the ZIP or folder of sensor files, the journal."""
