"""The child process: one job in, events out. Imports nothing of the coordinator."""
