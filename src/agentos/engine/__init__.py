"""Runs items: in local processes, or in an in-memory fake for tests."""
