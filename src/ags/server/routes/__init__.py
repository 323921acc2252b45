"""One module for each kind of thing the API tells of; each has a `router`."""
