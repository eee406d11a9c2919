"""Workflows: what is done with each item."""
