-- What `agentos db upgrade` has applied: our own migrations, procrastinate's, and the checkpoints' library.
CREATE TABLE agentos_schema (
    part TEXT NOT NULL,
    version TEXT NOT NULL,
    applied_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (part, version)
);
