"""Workflows: what is run on an item."""
