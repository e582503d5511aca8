"""The same for `await`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import numpy
import pytest
from server import Hosted

import fishplate
from fishplate import errors


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_calls_go_on_side_by_side(hosted: Hosted) -> None:
    async def main() -> None:
        add = await fishplate.AsyncService.connect(hosted.urls["arithmetic-test"])
        sums = await asyncio.gather(*(add(x=n, y=1) for n in range(20)))
        assert [result.result for result in sums] == list(range(1, 21))

    run(main())


def test_files_and_arrays(hosted: Hosted, tmp_path: Path) -> None:
    async def main() -> None:
        echo = await fishplate.AsyncService.connect(hosted.urls["echo"])
        file = tmp_path / "file"
        file.write_bytes(b"x" * 200_000)
        result = await echo(lambda_=file, changed=b"", matrix=numpy.eye(300))
        data = result["lambda.out"]
        assert isinstance(data, fishplate.AsyncData)
        assert await data.bytes() == file.read_bytes()
        assert (await data.path()).read_bytes() == file.read_bytes()
        assert (await data.save(tmp_path / "saved")).stat().st_size == 200_000
        assert await result.changed.text() == "more\n"
        assert (await data.numpy("u1")).shape == (200_000,)
        numpy.testing.assert_array_equal(result.matrix_out, numpy.eye(300))
        again = await echo(lambda_=data, changed=b"")
        assert again["lambda.out"].size == 200_000

    run(main())


def test_jobs(hosted: Hosted) -> None:
    async def main() -> None:
        countdown = await fishplate.AsyncService.connect(hosted.urls["countdown"])
        job = await countdown.spawn(steps=3, pause=0.05)
        seen: list[fishplate.Status] = []
        assert (await job.wait(seen.append)).state == "done" and seen
        assert (await job).summary == 3
        assert (await job.status()).progress == 1.0
        assert (await job.log()).count("\n") == 3
        assert (await countdown.job(job.id)).id == job.id
        assert job.id in [status.id for status in await countdown.jobs(limit=10)]
        await job.remove()
        with pytest.raises(errors.NoSuchJob):
            await countdown.job(job.id)

    run(main())


def test_cancelling_ends_the_exchange_at_once(hosted: Hosted) -> None:
    async def main() -> None:
        countdown = await fishplate.AsyncService.connect(hosted.urls["countdown"])
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await countdown(steps=100, pause=1)
        assert time.monotonic() - began < 50
        running = await countdown.jobs(state="running")
        assert running
        # A job goes on when what waits for it is cancelled.
        for status in running:
            job = await countdown.job(status.id)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await job
            assert not (await job.status()).final
            await job.kill()
            with pytest.raises(errors.JobKilled):
                await job

    run(main())


def test_faults_and_options(hosted: Hosted) -> None:
    async def main() -> None:
        fails = await fishplate.AsyncService.connect(hosted.urls["fails"])
        with pytest.raises(errors.ProgramFailed) as caught:
            await fails(how="exit")
        assert caught.value.exit_code == 3
        with pytest.raises(fishplate.ArgumentError):
            await fails(who="x")
        keyed = fails.options(key="async", outputs="value")
        first, second = await keyed["call"].spawn(how="exit"), await keyed.spawn(how="exit")
        assert first.id == second.id
        with pytest.raises(AttributeError):
            fails.nonsense

    run(main())
