"""The coordinator process: schedules, supervises, owns the key pool and the records of the run."""
