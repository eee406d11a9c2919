"""Finds items: in folders of the worktree, or on GitHub."""
