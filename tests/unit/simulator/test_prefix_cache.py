"""What the simulated provider's cache finds again."""

from agentos.simulator.prefix_cache import LIFETIME, CacheUse, PrefixCache

SHARED = "s" * 4 * 2_000


def test_the_blocks_that_were_seen_before_are_read() -> None:
    cache = PrefixCache()
    assert cache.use("m", SHARED + "one", None, 0.0) == CacheUse()
    cache.store("m", SHARED + "one", None, 0.0)
    again = cache.use("m", SHARED + "two", None, 1.0)
    assert again == CacheUse(read=1_920), "whole blocks of 128 tokens"
    assert cache.use("other", SHARED + "two", None, 1.0) == CacheUse()
    assert cache.use("m", "x" + SHARED, None, 1.0) == CacheUse(), "one letter before it changes all"


def test_with_marks_only_what_they_end_is_read_and_written() -> None:
    cache = PrefixCache()
    marks = (len(SHARED), len(SHARED) + 400)
    text = SHARED + "i" * 400 + "round 1"
    assert cache.use("m", text, marks, 0.0) == CacheUse(written=2_100)
    cache.store("m", text, marks, 0.0)
    assert cache.use("m", text + "2", marks, 1.0) == CacheUse(read=2_100)
    other = SHARED + "j" * 400 + "round 1"
    assert cache.use("m", other, marks, 1.0) == CacheUse(read=2_000, written=100)
    assert cache.use("m", text, (), 1.0) == CacheUse(), "nothing is marked"


def test_a_short_start_is_not_cached_and_an_old_one_is_forgotten() -> None:
    cache = PrefixCache()
    short = "s" * 4 * 1_000
    cache.store("m", short, None, 0.0)
    assert cache.use("m", short, None, 1.0) == CacheUse()
    cache.store("m", SHARED, None, 0.0)
    assert cache.use("m", SHARED, None, LIFETIME).read > 0
    assert cache.use("m", SHARED, None, LIFETIME + 1) == CacheUse()
