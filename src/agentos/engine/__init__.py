"""Where items run: local processes, or an in-memory fake for tests."""
