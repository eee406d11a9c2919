"""The repository map: what both models get to know about the repository, made for each item."""
