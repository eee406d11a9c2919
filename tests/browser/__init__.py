"""A package, so that its conftest and its modules do not share names with those of the other folders."""
