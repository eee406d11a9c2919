"""The live page of all runs of a home, and its server on the loopback interface."""
