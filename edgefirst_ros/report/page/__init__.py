"""The report page: one HTML file that shows whether a drive is good."""
