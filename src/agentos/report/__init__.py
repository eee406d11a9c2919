"""What a run leaves for people and programs to read."""
