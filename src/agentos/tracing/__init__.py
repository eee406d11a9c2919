"""The trace of a run: its tree of spans, and their export to an OTLP endpoint. Coordinator process."""
