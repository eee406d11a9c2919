"""A package, so that its conftest and modules do not clash with those of other folders."""
