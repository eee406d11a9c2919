"""One PostgreSQL database, shared by machines and projects. Nothing here is imported in local mode."""
