"""What others published, as data with its origin, and results beside it."""
