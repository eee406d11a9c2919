"""Events for the page: each change once, only the latest, and no watching without an open page."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agentos.view import live
from agentos.view.live import HomeSnapshot, Hub


def seen(
    each: dict[str, Any] | None = None, runs: tuple[Any, ...] = (), inbox: tuple[Any, ...] = ()
) -> HomeSnapshot:
    return HomeSnapshot(runs=runs, each=each or {}, inbox=inbox)


class Files:
    """Files that a test changes, and how often they were looked at."""

    def __init__(self) -> None:
        self.now = seen()
        self.looks = 0
        self.moment = 0.0

    async def look(self) -> HomeSnapshot:
        self.looks += 1
        return self.now

    def clock(self) -> float:
        return self.moment


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.001)
    return Files()


def told(text: str) -> tuple[str, dict[str, Any]]:
    event, data = text.strip().split("\n")
    return event.removeprefix("event: "), json.loads(data.removeprefix("data: "))


async def following(stream: AsyncIterator[str]) -> tuple[str, dict[str, Any]]:
    return told(await asyncio.wait_for(anext(stream), 10))


async def looked_at(files: Files, times: int = 3) -> None:
    wanted = files.looks + times
    while files.looks < wanted:  # noqa: ASYNC110 - the code under test must not know that it is watched
        await asyncio.sleep(0.001)


def run(test: Callable[[Files], Coroutine[Any, Any, None]], files: Files) -> None:
    # In another thread: the browser's driver leaves a loop running in the thread of the tests.
    with ThreadPoolExecutor(1) as aside:
        aside.submit(lambda: asyncio.run(asyncio.wait_for(test(files), 30))).result()


def test_a_page_hears_of_every_change(files: Files) -> None:
    async def test(files: Files) -> None:
        hub = Hub(files.look, clock=files.clock)
        stream = hub.listen()
        assert (await following(stream))[0] == "hello"
        files.now = seen({"a": (True, 1)}, runs=(("a", True),))
        heard = [await following(stream), await following(stream)]
        assert [(event, data.get("run")) for event, data in heard] == [("run", "a"), ("runs", None)]
        assert heard[0][1]["change"] < heard[1][1]["change"]
        files.now = seen({"a": (True, 1)}, runs=(("a", True),), inbox=("LLD-1",))
        assert (await following(stream))[0] == "inbox"
        await stream.aclose()

    run(test, files)


def test_a_live_run_is_told_of_at_most_once_a_second_and_its_end_at_once(files: Files) -> None:
    async def test(files: Files) -> None:
        hub = Hub(files.look, clock=files.clock)
        stream = hub.listen()
        await following(stream)
        files.now = seen({"a": (True, 1)})
        assert (await following(stream))[0] == "run"
        files.now = seen({"a": (True, 2)})
        await looked_at(files)
        waiting = asyncio.ensure_future(anext(stream))
        await looked_at(files)
        assert not waiting.done()  # a second has not passed
        files.moment = 1.0
        assert told(await waiting)[1]["run"] == "a"
        files.now = seen({"a": (False, 3)})
        assert (await following(stream))[1]["run"] == "a"
        await stream.aclose()

    run(test, files)


def test_a_run_whose_data_take_long_is_told_of_more_rarely(files: Files) -> None:
    async def test(files: Files) -> None:
        hub = Hub(files.look, cost=lambda _run: 2.0, clock=files.clock)
        stream = hub.listen()
        await following(stream)
        files.now = seen({"a": (True, 1)})
        await following(stream)
        files.now = seen({"a": (True, 2)})
        files.moment = 23.0
        waiting = asyncio.ensure_future(anext(stream))
        await looked_at(files)
        assert not waiting.done()
        files.moment = 24.0
        assert told(await waiting)[0] == "run"
        await stream.aclose()

    run(test, files)


def test_a_slow_page_is_told_the_latest_only(files: Files) -> None:
    async def test(files: Files) -> None:
        hub = Hub(files.look, clock=files.clock)
        stream = hub.listen()
        await following(stream)
        for number in range(5):
            files.moment += 1.0
            files.now = seen({"a": (True, number)}, inbox=(number,))
            await looked_at(files)
        heard = [await following(stream), await following(stream)]
        assert sorted(event for event, _ in heard) == ["inbox", "run"]
        waiting = asyncio.ensure_future(anext(stream))
        await looked_at(files)
        assert not waiting.done()
        hub.close()
        with pytest.raises(StopAsyncIteration):
            await waiting

    run(test, files)


def test_nobody_looks_while_nobody_listens(files: Files) -> None:
    async def test(files: Files) -> None:
        hub = Hub(files.look, clock=files.clock)
        first, second = hub.listen(), hub.listen()
        await following(first)
        assert (await following(second))[0] == "hello"
        await first.aclose()
        watched = hub.watching
        await second.aclose()
        assert (watched, hub.watching) == (True, False)
        await asyncio.sleep(0)
        looks = files.looks
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert files.looks <= looks + 1  # one may have been in progress

    run(test, files)


def test_a_heartbeat_keeps_a_quiet_stream_open(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "HEARTBEAT_SECONDS", 0.01)

    async def test(files: Files) -> None:
        hub = Hub(files.look, clock=files.clock)
        stream = hub.listen()
        await following(stream)
        assert (await asyncio.wait_for(anext(stream), 10)).startswith(":")
        await stream.aclose()

    run(test, files)


def test_a_watcher_that_fails_ends_the_streams_and_the_next_page_starts_it_again(files: Files) -> None:
    failures: list[Exception] = []

    async def test(files: Files) -> None:
        def broken() -> Awaitable[HomeSnapshot]:
            raise ValueError("odd")

        hub = Hub(broken, failed=failures.append, clock=files.clock)
        for _ in range(2):
            assert [event async for event in hub.listen()] == []
        assert [str(exc) for exc in failures] == ["odd", "odd"]
        assert not hub.watching

    run(test, files)


def test_closing_ends_every_stream_and_no_new_one_begins(files: Files) -> None:
    async def test(files: Files) -> None:
        hub = Hub(files.look, clock=files.clock)
        stream = hub.listen()
        await following(stream)
        hub.close()
        with pytest.raises(StopAsyncIteration):
            await following(stream)
        assert [event async for event in hub.listen()] == []

    run(test, files)
