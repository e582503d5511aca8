"""Work in steps, written once and run either way: blocking, or awaiting.

A flow is a generator: it yields what takes time and is sent its result. What it yields can be waited
for (`wait()`) and awaited.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterator
from typing import Any, Generic, Protocol, TypeVar

from . import _native
from .errors import ArgumentError, Timeout

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Step(Protocol[T_co]):
    """Something that takes time."""

    def wait(self) -> T_co: ...

    def __await__(self) -> Generator[Any, Any, T_co]: ...


Flow = Generator[Step[Any], Any, T]


def blocking(flow: Flow[T]) -> T:
    """Runs a flow; Ctrl-C ends the step under way."""
    try:
        step = next(flow)
        while True:
            try:
                done = step.wait()
            except BaseException as error:
                step = flow.throw(error)
            else:
                step = flow.send(done)
    except StopIteration as end:
        result: T = end.value
        return result


async def awaiting(flow: Flow[T]) -> T:
    """Runs a flow; cancelling it cancels the step under way."""
    try:
        step = next(flow)
        while True:
            try:
                done = await step
            except BaseException as error:
                step = flow.throw(error)
            else:
                step = flow.send(done)
    except StopIteration as end:
        result: T = end.value
        return result


def within(seconds: float, task: _native.Task[T]) -> T:
    """What a task gives in so much time; else `Timeout`."""
    until = time.monotonic() + seconds

    def look() -> None:
        if time.monotonic() > until:
            raise Timeout(f"no answer within {seconds:g} s")

    return task.wait(look)


class Sleep:
    """Lets time pass."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def wait(self) -> None:
        time.sleep(self._seconds)

    def __await__(self) -> Generator[Any, Any, None]:
        return asyncio.sleep(self._seconds).__await__()


class Blocking(Generic[T]):
    """Work on this machine's disk, on a thread where others may run."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work

    def wait(self) -> T:
        return self._work()

    def __await__(self) -> Generator[Any, Any, T]:
        return asyncio.to_thread(self._work).__await__()


class Threaded(Generic[T]):
    """An asynchronous iterable as an iterator for other threads than that of the loop, which makes its items."""

    def __init__(self, items: AsyncIterable[T]) -> None:
        self._items = items

    def wait(self) -> Iterator[T]:
        raise ArgumentError("an asynchronous iterable needs a loop: give it to an AsyncService")

    def __await__(self) -> Generator[Any, Any, Iterator[T]]:
        return self._threaded().__await__()

    async def _threaded(self) -> Iterator[T]:
        loop, items, end = asyncio.get_running_loop(), aiter(self._items), object()

        def following() -> Any:
            return asyncio.run_coroutine_threadsafe(_following(items, end), loop).result()

        return iter(following, end)


async def _following(items: AsyncIterator[Any], end: object) -> Any:
    return await anext(items, end)
