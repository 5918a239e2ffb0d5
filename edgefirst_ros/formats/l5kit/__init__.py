"""L5Kit datasets: written from samples, read as L5Kit reads them."""
