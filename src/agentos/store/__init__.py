"""Storage: files, the home folder, records."""
