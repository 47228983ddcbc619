"""The schema of the ledger as an append-only list. Never edit a released entry; add one."""

from __future__ import annotations

from typing import Final

MIGRATIONS: Final[tuple[tuple[str, str], ...]] = (
    (
        "001_runs",
        """CREATE TABLE runs (
            run TEXT PRIMARY KEY, config_hash TEXT NOT NULL, config TEXT NOT NULL,
            starts INTEGER NOT NULL, started_at REAL NOT NULL,
            finished_at REAL, exit_reason TEXT, result TEXT) STRICT""",
    ),
    (
        "002_steps",
        """CREATE TABLE steps (
            seq INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, run TEXT,
            kind TEXT NOT NULL, intent TEXT NOT NULL, attempts INTEGER NOT NULL,
            started_at REAL NOT NULL, finished_at REAL, duration_sec REAL,
            outcome TEXT, error TEXT) STRICT""",
    ),
    ("003_steps_by_run", "CREATE INDEX steps_by_run ON steps (run, kind)"),
    (
        "004_events",
        """CREATE TABLE events (
            seq INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT, kind TEXT NOT NULL,
            at REAL NOT NULL, payload TEXT NOT NULL) STRICT""",
    ),
    ("005_events_by_run", "CREATE INDEX events_by_run ON events (run, kind)"),
    (
        # Money is kept in whole nano-dollars: sums of floats would drift across a cap.
        "006_spend",
        """CREATE TABLE spend (
            id INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, role TEXT NOT NULL,
            at REAL NOT NULL, settled INTEGER NOT NULL DEFAULT 0,
            nano_usd INTEGER, tokens INTEGER NOT NULL) STRICT""",
    ),
    (
        # role '' is the cap on the whole run.
        "007_caps",
        """CREATE TABLE caps (
            run TEXT NOT NULL, role TEXT NOT NULL, nano_usd INTEGER, tokens INTEGER,
            PRIMARY KEY (run, role)) STRICT""",
    ),
    ("008_spend_by_run", "CREATE INDEX spend_by_run ON spend (run, role)"),
    (
        # One line a finished step, each over the one before: what was recorded, in its order.
        "009_chain",
        """CREATE TABLE chain (
            seq INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE,
            digest TEXT NOT NULL) STRICT""",
    ),
)
