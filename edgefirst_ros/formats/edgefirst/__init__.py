"""EdgeFirst datasets: sensor files in a ZIP or folder, annotations in Arrow."""
