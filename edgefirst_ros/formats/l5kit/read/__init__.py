"""L5Kit datasets read for training, as L5Kit reads them."""
