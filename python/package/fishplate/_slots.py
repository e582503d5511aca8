"""How many jobs of a run a server has at once."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any


class Slot:
    """The right to have a job at a server, waited for or awaited."""

    def __init__(self) -> None:
        self.given: Future[None] = Future()

    def wait(self) -> None:
        self.given.result()

    def __await__(self) -> Generator[Any, Any, None]:
        return asyncio.wrap_future(self.given).__await__()


class Slots:
    """So many slots; who asks first has one first."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._asked: deque[Slot] = deque()
        self._lock = threading.Lock()

    def ask(self) -> Slot:
        """A slot to wait for, and to give back whatever comes of that."""
        slot = Slot()
        with self._lock:
            self._asked.append(slot)
        self._give()
        return slot

    def give_back(self, slot: Slot) -> None:
        """Nobody needs it any more, or waits for it."""
        with self._lock:
            if slot in self._asked:
                self._asked.remove(slot)
            else:
                self._free += 1
        self._give()

    def _give(self) -> None:
        given = []
        with self._lock:
            while self._free > 0 and self._asked:
                self._free -= 1
                given.append(self._asked.popleft())
        for slot in given:
            # Who waits for it may have gone, and gives it back.
            if slot.given.set_running_or_notify_cancel():
                slot.given.set_result(None)
