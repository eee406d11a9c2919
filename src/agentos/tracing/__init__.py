"""The trace of a run: its spans, the tree they make, and the way to an OTLP endpoint. Coordinator process."""
