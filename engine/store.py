"""The run store: one folder a run, which survives kill -9 at any moment. Only the coordinator opens it.

SQLite (WAL, FULL, STRICT tables, one transaction a part) says what is done; blobs with SHA-256 beside it hold states.
What a trial has reached is derived from what was committed, never from a flag that a dying process must set.
"""

import fcntl
import json
import os
import socket
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fedskew.engine.plans import Part
from fedskew.profiles.errors import EnvironmentFaultError, FedskewError

VERSION = 1
TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
    """CREATE TABLE parts (trial TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, curves BLOB NOT NULL,
    seeds INTEGER NOT NULL, seconds REAL NOT NULL, state TEXT NOT NULL, sha256 TEXT NOT NULL, predicted BLOB,
    diverged TEXT NOT NULL, parameters INTEGER NOT NULL, PRIMARY KEY (trial, first)) STRICT""",
)


class RunStore:
    """An open run folder, locked against any other coordinator.

    Parameters
    ----------
    folder : made if it does not exist
    key : what the results depend on, by name; a folder with another key is refused
    force : go on in spite of another key; the break is recorded

    Raises
    ------
    FedskewError
        The folder holds a run of other data, options, code or versions: the differences are listed.
    EnvironmentFaultError
        The folder cannot be written, is held by another process, or its store is damaged or of another version.
    """

    def __init__(self, folder: Path, key: Mapping[str, str], *, force: bool = False) -> None:
        self.folder = folder
        try:
            (folder / "blobs").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EnvironmentFaultError(f"cannot make the run folder {folder}: {error.strerror}") from error
        self._lock = _locked(folder / "lock")
        try:
            self._db = self._opened()
            self._check_key(key, force=force)
        except BaseException:
            os.close(self._lock)
            raise

    def close(self) -> None:
        """Give the folder back."""
        self._db.close()
        os.close(self._lock)

    def parts(self, trial: str) -> list[Part]:
        """All committed parts of a trial, in order."""
        rows = self._db.execute("SELECT * FROM parts WHERE trial = ? ORDER BY first", (trial,)).fetchall()
        return [_part(dict(row)) for row in rows]

    def commit(self, trial: str, part: Part) -> None:
        """Record a part in one transaction, then drop the blob it makes obsolete."""
        old = self._db.execute("SELECT state FROM parts WHERE trial = ? AND state != ''", (trial,)).fetchall()
        predicted = None if part.predicted is None else part.predicted.tobytes()
        values = (
            *(trial, part.first, part.last, part.curves.tobytes(), part.curves.shape[1], part.seconds),
            *(part.state, part.sha256, predicted, json.dumps(part.diverged.tolist()), part.parameters),
        )
        with self._guard(), self._db:
            self._db.execute("UPDATE parts SET state = '' WHERE trial = ?", (trial,))
            self._db.execute("INSERT OR REPLACE INTO parts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        for (name,) in old:
            if name != part.state:
                (self.folder / "blobs" / name).unlink(missing_ok=True)

    def remember(self, name: str, value: str) -> None:
        """Keep a text under a name."""
        with self._guard(), self._db:
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def recall(self, name: str) -> str | None:
        """The text kept under a name."""
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def _opened(self) -> sqlite3.Connection:
        path = self.folder / "run.sqlite"
        with self._guard():
            db = sqlite3.connect(path)
            db.row_factory = sqlite3.Row
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            found = db.execute("PRAGMA user_version").fetchone()[0]
            if found == 0:
                with db:
                    for table in TABLES:
                        db.execute(table)
                    db.execute(f"PRAGMA user_version = {VERSION}")
            elif found != VERSION:
                raise EnvironmentFaultError(
                    f"{path} is of version {found}, this fedskew writes {VERSION}; use a new --run folder"
                )
            elif db.execute("PRAGMA quick_check").fetchone()[0] != "ok":
                raise EnvironmentFaultError(f"{path} is damaged; keep it for reference and use a new --run folder")
        return db

    def _check_key(self, key: Mapping[str, str], *, force: bool) -> None:
        known = self.recall("run key")
        if known is None:
            self.remember("run key", json.dumps(dict(key), sort_keys=True))
            return
        before: dict[str, Any] = json.loads(known)
        changed = [name for name in sorted({*before, *key}) if before.get(name) != key.get(name)]
        if not changed:
            return
        listed = "; ".join(f"{name} was {_short(before.get(name))}, is {_short(key.get(name))}" for name in changed)
        if not force:
            raise FedskewError(
                f"{self.folder} holds another run: {listed}. Use a new --run folder, or --force-resume to go on "
                f"all the same"
            )
        self.remember("forced resumes", (self.recall("forced resumes") or "") + listed + "\n")
        self.remember("run key", json.dumps(dict(key), sort_keys=True))

    @contextmanager
    def _guard(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise EnvironmentFaultError(
                f"the run store in {self.folder} cannot be used: {error}; what was committed is kept"
            ) from error


def _locked(path: Path) -> int:
    """Take the lock of a run folder; a dead holder's lock is free by itself."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise EnvironmentFaultError(f"cannot write in the run folder {path.parent}: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(handle, 500).decode("utf-8", "replace") or "another process"
        os.close(handle)
        raise EnvironmentFaultError(
            f"the run folder {path.parent} is in use by {holder}; wait, or use another --run"
        ) from None
    os.ftruncate(handle, 0)
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    os.write(handle, f"process {os.getpid()} on {socket.gethostname()} since {since}".encode())
    return handle


def _part(row: dict[str, Any]) -> Part:
    rounds = row["last"] - row["first"]
    curves = np.frombuffer(row["curves"]).reshape(3, row["seeds"], rounds)
    predicted = None if row["predicted"] is None else np.frombuffer(row["predicted"]).reshape(row["seeds"], -1)
    return Part(
        first=row["first"],
        last=row["last"],
        curves=curves,
        state=row["state"],
        sha256=row["sha256"],
        predicted=predicted,
        diverged=np.asarray(json.loads(row["diverged"]), np.int64),
        parameters=row["parameters"],
        seconds=row["seconds"],
    )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 24 else text[:12] + "…"
