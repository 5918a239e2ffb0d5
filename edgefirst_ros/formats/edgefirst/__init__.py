"""EdgeFirst datasets: a ZIP or folder of sensor files beside an Arrow table of annotations."""
