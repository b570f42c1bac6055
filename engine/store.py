"""The run store: one folder a run, which survives kill -9 at any moment. Only the coordinator opens it.

SQLite (WAL, FULL, STRICT tables, one transaction a part) says what is done; blobs with SHA-256 beside it hold states.
What a trial has reached is derived from what was committed, never from a flag that a dying process must set. SQLite
notices a damaged page but not a damaged value, so each part carries a SHA-256 of its own, checked when a run is opened.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fedskew.engine.plans import Part
from fedskew.profiles.errors import EnvironmentFaultError, FedskewError

VERSION = 2
ROWS = frozenset({"data", "parties"})
"""Parts of a run's key that are never forced: scores of other rows would be mixed in, or not fit."""
TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
    """CREATE TABLE parts (trial TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, curves BLOB NOT NULL,
    seeds INTEGER NOT NULL, seconds REAL NOT NULL, state TEXT NOT NULL, sha256 TEXT NOT NULL, predicted BLOB,
    diverged TEXT NOT NULL, parameters INTEGER NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (trial, first)) STRICT""",
)


class RunStore:
    """An open run folder, locked against any other coordinator.

    Parameters
    ----------
    folder : made if it does not exist
    key : what the results depend on, by name; a folder with another key is refused
    force : go on in spite of another key; the break is recorded
    begun : called where the folder takes a new run, or another one by force, just before its key is kept

    Raises
    ------
    FedskewError
        The folder holds a run of other data, options, code or versions: the differences are listed.
    EnvironmentFaultError
        The folder cannot be written, is held by another process, or its store is damaged or of another version.
    """

    def __init__(
        self,
        folder: Path,
        key: Mapping[str, str],
        *,
        force: bool = False,
        begun: Callable[[], None] | None = None,
    ) -> None:
        self.folder, self._begun = folder, begun
        try:
            (folder / "blobs").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EnvironmentFaultError(f"cannot make the run folder {folder}: {error.strerror}") from error
        self._lock = _locked(folder / "lock")
        try:
            self._db = self._opened()
        except BaseException:
            os.close(self._lock)
            raise
        try:
            self._check_key(key, force=force)
            self._sweep()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the folder back."""
        self._db.close()
        os.close(self._lock)

    def parts(self, trial: str) -> list[Part]:
        """All committed parts of a trial, in order."""
        with self._guard():
            rows = self._db.execute("SELECT * FROM parts WHERE trial = ? ORDER BY first", (trial,)).fetchall()
        return [_part(dict(row)) for row in rows]

    def commit(self, trial: str, part: Part) -> None:
        """Record a part in one transaction, then drop the blob it makes obsolete."""
        row: dict[str, Any] = {
            "trial": trial,
            "first": part.first,
            "last": part.last,
            "curves": part.curves.tobytes(),
            "seeds": part.curves.shape[1],
            "seconds": float(part.seconds),
            "state": part.state,
            "sha256": part.sha256,
            "predicted": None if part.predicted is None else part.predicted.tobytes(),
            "diverged": json.dumps(part.diverged.tolist()),
            "parameters": part.parameters,
        }
        values = (*row.values(), _digest(row))
        with self._guard(), self._db:
            found = "SELECT state FROM parts WHERE trial = ? AND state NOT IN ('', ?)"
            old = self._db.execute(found, (trial, part.state)).fetchall()
            self._db.execute("UPDATE parts SET state = '' WHERE trial = ?", (trial,))
            self._db.execute("INSERT OR REPLACE INTO parts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        for (name,) in old:
            with contextlib.suppress(OSError):  # a blob too many does no harm
                (self.folder / "blobs" / name).unlink()

    def remember(self, name: str, value: str) -> None:
        """Keep a text under a name."""
        with self._guard(), self._db:
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def recall(self, name: str) -> str | None:
        """The text kept under a name."""
        with self._guard():
            row = self._db.execute("SELECT value FROM meta WHERE key = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def _opened(self) -> sqlite3.Connection:
        path = self.folder / "run.sqlite"
        with self._guard():
            db = sqlite3.connect(path)
            try:
                self._prepare(db, path)
            except BaseException:
                db.close()
                raise
        return db

    def _prepare(self, db: sqlite3.Connection, path: Path) -> None:
        """Make the tables of a new store; check everything that an old one holds."""
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        found = db.execute("PRAGMA user_version").fetchone()[0]
        if found == 0:
            if any((self.folder / "blobs").iterdir()):  # saved states of a store that is gone
                raise _damaged(path)
            with db:
                db.execute("BEGIN")
                for table in TABLES:
                    db.execute(table)
                db.execute(f"PRAGMA user_version = {VERSION}")
            return
        if found != VERSION:
            raise EnvironmentFaultError(
                f"{path} is of version {found}, this fedskew writes {VERSION}; use a new --run folder"
            )
        if db.execute("PRAGMA quick_check").fetchone()[0] != "ok":
            raise _damaged(path)
        reached: dict[str, int] = {}
        for row in db.execute("SELECT * FROM parts ORDER BY trial, first"):
            if _digest(dict(row)) != row["digest"] or row["first"] != reached.get(row["trial"], 0):
                raise _damaged(path)
            reached[row["trial"]] = row["last"]

    def _check_key(self, key: Mapping[str, str], *, force: bool) -> None:
        known = self.recall("run key")
        if known is None:
            self._begin(key)
            return
        try:
            before: dict[str, Any] = dict(json.loads(known))
        except (ValueError, TypeError):
            raise _damaged(self.folder / "run.sqlite") from None
        changed = [name for name in sorted({*before, *key}) if before.get(name) != key.get(name)]
        if not changed:
            return
        listed = "; ".join(f"{name} {_difference(before.get(name), key.get(name))}" for name in changed)
        if not force:
            raise FedskewError(
                f"{self.folder} holds another run: {listed}. Use a new --run folder, or --force-resume to go on "
                f"all the same"
            )
        if ROWS & set(changed):
            raise FedskewError(
                f"{self.folder} holds a run on other rows: {listed}. What it has finished says nothing about these, so "
                f"that it cannot be forced: use a new --run folder"
            )
        self.remember("forced resumes", (self.recall("forced resumes") or "") + listed + "\n")
        self._begin(key)

    def _begin(self, key: Mapping[str, str]) -> None:
        if self._begun is not None:
            self._begun()
        self.remember("run key", json.dumps(dict(key), sort_keys=True))

    def _sweep(self) -> None:
        """Drop states that no part names: a kill between writing a state and committing its part leaves one."""
        with self._guard():
            kept = {name for (name,) in self._db.execute("SELECT state FROM parts")}
        for path in (self.folder / "blobs").iterdir():
            if path.name not in kept:
                with contextlib.suppress(OSError):
                    path.unlink()

    @contextmanager
    def _guard(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeError, IndexError) as error:  # a damaged schema may break names too
            reason = " ".join(str(error).split())
            raise EnvironmentFaultError(
                f"the run store in {self.folder} cannot be used: {reason}; what was committed is kept"
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
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    with contextlib.suppress(OSError):  # who holds it is a courtesy; a full disk is told by the store
        os.ftruncate(handle, 0)
        os.write(handle, f"process {os.getpid()} on {socket.gethostname()} since {since}".encode())
    return handle


def _damaged(path: Path) -> EnvironmentFaultError:
    return EnvironmentFaultError(f"{path} is damaged; keep it for reference and use a new --run folder")


def _digest(row: Mapping[str, Any]) -> str:
    """SHA-256 of a part as it is stored; its ``state`` changes later, and the blob of that name has its own hash."""
    digest = hashlib.sha256()
    for name, value in row.items():
        if name not in {"state", "digest"}:
            content = value if isinstance(value, bytes) else repr(value).encode("utf-8", "surrogateescape")
            digest.update(f"{name} {type(value).__name__} {len(content)}:".encode())
            digest.update(content)
    return digest.hexdigest()


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


def _difference(before: object, after: object) -> str:
    """Where two values differ; of long lists of texts only the entries that one of them lacks."""
    left, right, room = str(before), str(after), 40
    if max(len(left), len(right)) > room and ", " in left + right and not left.startswith("("):
        one, other = left.split(", "), right.split(", ")
        gone, new = [e for e in one if e not in other], [e for e in other if e not in one]
        if gone or new:
            left, right, room = ", ".join(gone) or "without it", ", ".join(new) or "without it", 200
    unlike = (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b)
    start = next(unlike, min(len(left), len(right)))
    return f"was {_short(left, start, room)}, is {_short(right, start, room)}"


def _short(text: str, start: int, room: int) -> str:
    """A text, or half a room of it from about ``start`` on where it has no room."""
    if len(text) <= room:
        return text
    first = max(0, start - room // 4)
    last = first + room // 2
    return "…" * (first > 0) + text[first:last] + "…" * (last < len(text))
