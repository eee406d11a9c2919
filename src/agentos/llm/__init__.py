"""Calls models: lease, call, classify, settle."""
