"""The functions that Python code calls as ``edgefirst_ros.convert`` and so on."""
