"""Many recordings to many datasets: on all cores or a cluster, to folders or object stores, resumable."""
