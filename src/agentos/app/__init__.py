"""The application: what the commands do. Never prints, never reads flags; `cli` and `view` call it."""
