"""Calling models: lease, call, classify, settle."""
