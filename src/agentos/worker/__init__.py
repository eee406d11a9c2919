"""The worker process: one job in, messages out. Imports nothing from the coordinator."""
