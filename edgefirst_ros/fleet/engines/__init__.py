"""Where the drives of a fleet are converted: behind one seam, processes of this machine, Ray or Dask."""
