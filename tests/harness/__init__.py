"""What the tests share: a project to run the real command in, eyes on processes, servers on loopback."""
