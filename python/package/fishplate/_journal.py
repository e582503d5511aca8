"""The journal of a run: what was called, and what came back, in a file that only grows.

A record is a line: the CRC-32 of its JSON, and the JSON. What is not whole at the end was never relied upon, and is cut
off. docs/decisions/0027 says what stands in it, and why it is not written to the disk at each step.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import JournalDamaged, RunInUse

FORMAT = 2
"""Of the journal; a later one is not read."""

SYNCED = frozenset({"run", "value", "put", "cancelled", "reopened", "taken"})
"""Kinds of records that are on the disk before anybody goes on: no server has a copy of them."""


@dataclass
class Attempt:
    """A call as it was made, and what came of it."""

    place: str
    number: int
    """How often this place was tried before."""
    call: str
    inputs: list[Any]
    url: str
    where: str
    """The line of the workflow."""
    begun: float
    """Seconds since 1970, as all times here."""
    job: str | None = None
    ended: float | None = None
    outputs: list[Any] | None = None
    fault: dict[str, Any] | None = None
    log: str = ""
    """What a failed program wrote last."""
    cancelled: bool = False
    reopened: bool = False
    """The workflow ended with its failure, so it is tried again."""
    found: bool = False
    """Its job was there before it was asked for, under a key of `reuse`."""
    taken: bool = False
    """The workflow went on from its failure, so that is replayed."""
    asked: bool = True
    """Whether a server was reached, so that its operation and inputs are known."""
    used: dict[str, Any] | None = None
    """What the server told of its job."""

    @property
    def is_open(self) -> bool:
        """Nothing came of it yet."""
        return self.outputs is None and self.fault is None and not self.cancelled

    @property
    def is_settled(self) -> bool:
        """What came of it is replayed, without its server."""
        return self.outputs is not None or (self.fault is not None and not self.reopened)

    @property
    def counts(self) -> bool:
        """The same workflow comes here again: what failed it mends, what was cancelled it may do without."""
        return self.outputs is not None or self.is_open or (self.taken and not self.reopened)


@dataclass
class Measure:
    """A measure of convergence, as `Run.progress` was told it."""

    branch: str
    name: str
    value: float
    at: float


@dataclass
class Contents:
    """All that a journal says."""

    name: str = ""
    id: str = ""
    attempts: dict[str, list[Attempt]] = field(default_factory=dict)
    """Of each place, in their order."""
    values: dict[str, Any] = field(default_factory=dict)
    descriptions: dict[str, dict[str, str]] = field(default_factory=dict)
    """Of each URL: the file of its description, and where that stood."""
    measures: dict[str, Measure] = field(default_factory=dict)
    pictures: list[tuple[str, str]] = field(default_factory=list)
    """Captions, and files of the run's directory."""
    processes: list[dict[str, Any]] = field(default_factory=list)
    """When the workflow was started, and what its process moved."""

    def take(self, record: dict[str, Any]) -> None:
        """What a record adds."""
        take = getattr(self, f"_{record['kind']}", None)
        if take is None:
            raise JournalDamaged(f"it has a record of the kind {record['kind']}, which this version does not know")
        take(record.get("place", ""), record)

    def last(self, place: str) -> Attempt | None:
        """The last attempt of a place."""
        attempts = self.attempts.get(place)
        return attempts[-1] if attempts else None

    def places(self) -> list[str]:
        """Where the same workflow comes again, in the order in which it came there first. What was called to make a value is
        not called again."""
        begun = {place: value["at"] for place, value in self.values.items()}
        begun |= {place: attempts[0].begun for place, attempts in self.attempts.items() if attempts[-1].counts}
        return sorted((place for place in begun if not self._is_within_a_value(place)), key=begun.__getitem__)

    def _is_within_a_value(self, place: str) -> bool:
        outer = branch_of(place)
        return bool(outer) and (outer in self.values or self._is_within_a_value(outer))

    def _run(self, _: str, record: dict[str, Any]) -> None:
        self.name, self.id = record["name"], record["id"]

    def _process(self, _: str, record: dict[str, Any]) -> None:
        self.processes.append({"pid": record["pid"], "begun": record["at"]})

    def _described(self, _: str, record: dict[str, Any]) -> None:
        self.descriptions[record["url"]] = {name: record[name] for name in ("file", "wsdl_url")}

    def _left(self, _: str, record: dict[str, Any]) -> None:
        self.processes[-1] |= {name: record[name] for name in ("at", "sent", "received")}

    def _begun(self, place: str, record: dict[str, Any]) -> None:
        told = {name: record[name] for name in ("call", "inputs", "url", "where")}
        made = Attempt(place, record["attempt"], begun=record["at"], **told)
        self.attempts.setdefault(place, []).append(made)

    def _changed(self, place: str, **parts: Any) -> None:
        attempt = self.attempts[place][-1]
        for name, value in parts.items():
            setattr(attempt, name, value)

    def _accepted(self, place: str, record: dict[str, Any]) -> None:
        self._changed(place, job=record["job"], found=record.get("found", False))

    def _ended(self, place: str, record: dict[str, Any]) -> None:
        self._changed(place, outputs=record["outputs"], ended=record["at"], cancelled=False)
        # A process that is killed tells no more. Journals of before have it at their end only.
        self.processes[-1] |= zip(("sent", "received"), record.get("moved", ()))

    def _failed(self, place: str, record: dict[str, Any]) -> None:
        asked = record.get("asked", True)
        self._changed(place, fault=record["fault"], log=record["log"], ended=record["at"], asked=asked)

    def _taken(self, place: str, _: dict[str, Any]) -> None:
        self._changed(place, taken=True)

    def _mismatched(self, place: str, _: dict[str, Any]) -> None:
        # It was another call: what was there before it counts.
        self.attempts[place].pop()
        if not self.attempts[place]:
            del self.attempts[place]

    def _cancelled(self, place: str, record: dict[str, Any]) -> None:
        self._changed(place, cancelled=True, ended=record["at"])

    def _reopened(self, place: str, record: dict[str, Any]) -> None:
        self._changed(place, reopened=True)

    def _used(self, place: str, record: dict[str, Any]) -> None:
        number = record["attempt"]
        for attempt in self.attempts[place]:
            if attempt.number == number:
                attempt.used = record["used"]

    def _value(self, place: str, record: dict[str, Any]) -> None:
        self.values[place] = record

    _put = _value

    def _progress(self, place: str, record: dict[str, Any]) -> None:
        told = {name: record[name] for name in ("name", "value", "at")}
        self.measures[place] = Measure(branch_of(place), **told)

    def _picture(self, _: str, record: dict[str, Any]) -> None:
        self.pictures.append((record["caption"], record["file"]))


def branch_of(place: str) -> str:
    """The branch in which a place is, or from which a branch came; `""` is the first one."""
    return place.rpartition("/")[0]


class Journal:
    """The journal in a directory, which belongs to one process at a time."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory
        self.files = directory / "values"
        # References are keys: nobody else reads them.
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.files.mkdir(mode=0o700, exist_ok=True)
        self._lock = threading.Lock()
        self._held = self._claim(name)
        path = directory / "journal"
        try:
            self.contents, whole = read(path)
            if self.contents.id and self.contents.name != name:
                raise RunInUse(f"{directory} is the directory of run {self.contents.name}, not of {name}")
            _keep_cut(path, whole)
        except BaseException:
            os.close(self._held)
            raise
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._file, whole)
        os.lseek(self._file, 0, os.SEEK_END)
        _open.add(self)
        if not self.contents.id:
            self.append("run", name=name, id=secrets.token_hex(16), format=FORMAT)
            sync_directory(directory)
        # What follows is of this format, whatever stands before.
        self.append("process", pid=os.getpid(), format=FORMAT)

    def _claim(self, name: str) -> int:
        held = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # The kernel lets go of it with the process, however that ends.
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.read(held, 32).decode().strip()
            os.close(held)
            what = f"run {name} in {self.directory} is "
            if pid == str(os.getpid()):
                what += "open in this program: run.close()"
            else:
                what += f"being run by process {pid}: wait for it, or end it"
            raise RunInUse(what) from None
        os.ftruncate(held, 0)
        os.pwrite(held, str(os.getpid()).encode(), 0)
        return held

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be added any more."""
        return self._file < 0

    def append(self, kind: str, **parts: Any) -> None:
        """Adds a record. It outlives this process; those of the kinds in `SYNCED` outlive a power failure too."""
        record = {"kind": kind, "at": time.time(), **parts}
        line = _line(record)
        with self._lock:
            if self._file < 0:
                return
            before = os.lseek(self._file, 0, os.SEEK_CUR)
            try:
                if os.write(self._file, line) != len(line):
                    raise OSError(errno.ENOSPC, "the disk took a part of a record", str(self.directory / "journal"))
            except OSError:
                # The next record begins where this one should have.
                os.ftruncate(self._file, before)
                os.lseek(self._file, before, os.SEEK_SET)
                raise
            if kind in SYNCED:
                os.fdatasync(self._file)
            self.contents.take(record)

    def close(self) -> None:
        """Lets another process have it."""
        with self._lock:
            if self._file >= 0:
                os.fsync(self._file)
                self._let_go()

    def _let_go(self) -> None:
        os.close(self._file)
        os.close(self._held)
        self._file = -1
        _open.discard(self)


_open: set[Journal] = set()


def _forked() -> None:
    """A child has no part in its parent's runs, and must not hold their locks when that has ended."""
    for journal in list(_open):
        # Another thread of the parent may have had it.
        journal._lock = threading.Lock()
        journal._let_go()


os.register_at_fork(after_in_child=_forked)


def _line(record: dict[str, Any]) -> bytes:
    text = json.dumps(record, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def read(path: Path) -> tuple[Contents, int]:
    """What a journal says, and how many of its bytes are whole."""
    contents, whole = Contents(), 0
    if not path.exists():
        return contents, whole
    data = path.read_bytes()
    records = _records(data)
    for end, record in records:
        if record is None:
            # An accident tears the end, and nothing else.
            if whole == 0 or any(record is not None for _, record in records):
                raise JournalDamaged(f"{path} is damaged at byte {whole}, and not only torn at its end: give back a "
                                     "copy of it, or begin another run")
            break
        if record.get("format", 0) > FORMAT:
            raise JournalDamaged(f"{path} is of format {record['format']}; this version reads up to {FORMAT}")
        try:
            contents.take(record)
        except JournalDamaged as error:
            raise JournalDamaged(f"{path}: {error}") from None
        whole = end
    return contents, whole


def _keep_cut(path: Path, whole: int) -> None:
    """Keeps what will be cut off a journal's end beside it, if it is more than a torn line."""
    if not path.exists():
        return
    cut = path.read_bytes()[whole:]
    if b"\n" in cut:
        path.with_name(f"journal.cut-{time.strftime('%Y%m%dT%H%M%S')}").write_bytes(cut)


def _records(data: bytes) -> Iterator[tuple[int, dict[str, Any] | None]]:
    at = 0
    while at < len(data):
        end = data.find(b"\n", at) + 1
        line = data[at : end - 1] if end else b""
        at = end or len(data)
        yield at, _record(line)


def _record(line: bytes) -> dict[str, Any] | None:
    sum, _, text = line.partition(b" ")
    try:
        if int(sum, 16) != zlib.crc32(text):
            return None
        record: dict[str, Any] = json.loads(text)
    except ValueError:
        return None
    return record


def sync_directory(directory: Path) -> None:
    """Has the names in a directory survive a power failure."""
    at = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(at)
    finally:
        os.close(at)
