"""Where things are kept: files, the home folder, records."""
