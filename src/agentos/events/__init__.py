"""What happened in a run: the catalogue of events, and one fold of them into the state of the run. Pure."""
