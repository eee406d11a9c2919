"""What wakes a loop that waits for signals."""

import select
import signal

from agentos.signals import StopSignals


def test_another_thread_wakes_the_loop_and_stops_nothing() -> None:
    with StopSignals() as signals:
        assert select.select([signals], [], [], 0)[0] == []
        for _ in range(2):
            for _ in range(300_000):  # more than the buffer holds
                signals.wake()
            assert select.select([signals], [], [], 0)[0] == [signals]
            signal.raise_signal(signal.SIGTERM)
            assert signals.read() == [signal.SIGTERM]
            assert signals.read() == []
    signals.wake()
