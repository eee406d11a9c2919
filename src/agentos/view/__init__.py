"""The live page of all runs of a home: a server on the loopback interface, and the page it serves."""
