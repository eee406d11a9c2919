"""What the tests share: a project to run the real command in, a view of processes, local servers."""
