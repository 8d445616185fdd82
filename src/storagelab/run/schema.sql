-- The store of one experiment. Append-only: what was measured is never changed or deleted.
-- Version of this schema: PRAGMA user_version. JSON columns hold the values of model.py, raw; all else is derived from them.

CREATE TABLE experiment (
    only_one     INTEGER PRIMARY KEY CHECK (only_one = 1),
    name         TEXT NOT NULL,
    spec_sha256  TEXT NOT NULL,  -- of the spec's canonical content: comments and blanks don't count
    spec_text    TEXT NOT NULL,  -- as written
    experiment   TEXT NOT NULL,  -- model.Experiment as JSON
    created_at   TEXT NOT NULL,  -- ISO 8601, UTC
    made_by      TEXT NOT NULL   -- storagelab's version
) STRICT;

CREATE TABLE run (
    cell_id      TEXT    NOT NULL,
    repetition   INTEGER NOT NULL,                       -- from 1 up; those of a burn-in, which is not judged, from 0 down
    attempt      INTEGER NOT NULL CHECK (attempt >= 1),  -- above 1: made again after a failure, at the user's wish
    sequence     INTEGER NOT NULL,                       -- place in the order of the plan
    block        INTEGER NOT NULL,
    seed         INTEGER NOT NULL,
    status       TEXT    NOT NULL CHECK (status IN ('ok', 'failed', 'unverified')),
    reason       TEXT    NOT NULL,                       -- why it failed or is unverified, else ''
    started_at   TEXT    NOT NULL,                       -- ISO 8601, UTC
    finished_at  TEXT    NOT NULL,
    wall_s       REAL    NOT NULL,                       -- set-up and teardown included
    elapsed_s    REAL,                                   -- first start to last finish; NULL when failed
    row_count    INTEGER,
    levels       TEXT    NOT NULL,                       -- JSON: factor -> value or label
    config       TEXT    NOT NULL,                       -- JSON: model.Config, the whole configuration of the run
    measurement  TEXT,                                   -- JSON: model.Measurement, raw; NULL when failed
    PRIMARY KEY (cell_id, repetition, attempt)
) STRICT;

CREATE TRIGGER run_is_never_changed BEFORE UPDATE ON run
    BEGIN SELECT RAISE(ABORT, 'runs are append-only'); END;
CREATE TRIGGER run_is_never_deleted BEFORE DELETE ON run
    BEGIN SELECT RAISE(ABORT, 'runs are append-only'); END;
CREATE TRIGGER experiment_is_never_changed BEFORE UPDATE ON experiment
    BEGIN SELECT RAISE(ABORT, 'an experiment is append-only'); END;
CREATE TRIGGER experiment_is_never_deleted BEFORE DELETE ON experiment
    BEGIN SELECT RAISE(ABORT, 'an experiment is append-only'); END;
