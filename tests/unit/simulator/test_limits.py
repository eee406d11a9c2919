"""The simulator's buckets and fault rules, with a fake clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.errors import UsageError
from agentos.simulator import FaultKind, LimitConfig, SimulatorConfig, parse_fault, parse_key
from agentos.simulator.faults import FaultPlan
from agentos.simulator.limits import LimitName, Limits
from agentos.simulator.openai import go_duration


def admit(limits: Limits, now: float, tokens: int = 1, *, refused_count: bool = False) -> bool:
    return limits.admit(tokens, now, refused_count=refused_count) is None


class TestLimits:
    def test_a_minutes_worth_at_once_by_default(self) -> None:
        limits = Limits(LimitConfig(rpm=60), now=0)
        assert sum(admit(limits, 0) for _ in range(100)) == 60
        assert sum(admit(limits, 10) for _ in range(100)) == 10

    def test_burst(self) -> None:
        limits = Limits(LimitConfig(rpm=600, burst=10), now=0)
        assert sum(admit(limits, 0) for _ in range(100)) == 10
        refusal = limits.admit(1, 0, refused_count=False)
        assert refusal is not None
        assert refusal.limit is LimitName.REQUESTS
        assert refusal.wait == pytest.approx(0.1)
        assert admit(limits, 0.1)

    def test_tokens_and_requests_are_taken_together_or_not_at_all(self) -> None:
        limits = Limits(LimitConfig(rpm=60, burst=2, tpm=6000, token_burst=1000), now=0)
        assert admit(limits, 0, 900)
        refusal = limits.admit(900, 0, refused_count=False)
        assert refusal is not None
        assert refusal.limit is LimitName.TOKENS
        assert refusal.wait == pytest.approx(8)
        assert admit(limits, 0, 100)

    def test_a_call_that_never_fits(self) -> None:
        refusal = Limits(LimitConfig(tpm=1000), now=0).admit(1001, 0, refused_count=False)
        assert refusal is not None
        assert refusal.wait is None

    def test_refused_calls_may_count(self) -> None:
        limits = Limits(LimitConfig(rpm=60, burst=1), now=0)
        assert admit(limits, 0)
        for tenth in range(1, 40):
            assert not admit(limits, tenth / 10, refused_count=True)
        assert admit(limits, 4.9)

    def test_the_clock_going_back_gives_nothing(self) -> None:
        limits = Limits(LimitConfig(rpm=60, burst=1), now=100)
        assert admit(limits, 100)
        assert not admit(limits, 50)
        assert not admit(limits, 50.5)

    def test_most_calls(self) -> None:
        limits = Limits(LimitConfig(rpm=600, burst=10, tpm=60_000, token_burst=1000), now=0)
        assert limits.most_calls(10, 50) == 110
        assert limits.most_calls(10, 1000) == 11
        assert Limits(LimitConfig(), now=0).most_calls(10, 50) is None

    @given(
        rpm=st.integers(1, 600),
        burst=st.integers(1, 50),
        steps=st.lists(st.floats(0, 5), max_size=60),
        refused_count=st.booleans(),
    )
    def test_never_more_than_the_most(
        self, rpm: int, burst: int, steps: list[float], refused_count: bool
    ) -> None:
        limits = Limits(LimitConfig(rpm=rpm, burst=burst), now=0)
        now, served = 0.0, 0
        for step in steps:
            now += step
            served += admit(limits, now, refused_count=refused_count)
            most = limits.most_calls(now, 1)
            assert most is not None
            assert served <= most

    @pytest.mark.parametrize(
        "values", [{"rpm": 0}, {"tpm": -1}, {"rpd": float("nan")}, {"rpm": 6, "burst": 0.5}]
    )
    def test_nonsense_is_refused(self, values: dict[str, float]) -> None:
        with pytest.raises(UsageError):
            LimitConfig(**values)


class TestConfig:
    def test_keys(self) -> None:
        key = parse_key("s3cret:60:9000:500@project", burst=5)
        assert (key.secret, key.group) == ("s3cret", "project")
        assert key.limits == LimitConfig(rpm=60, tpm=9000, rpd=500, burst=5)
        assert parse_key("a::100").limits == LimitConfig(tpm=100)
        assert "s3cret" not in repr(key)

    @pytest.mark.parametrize("spec", ["", ":60", "a:b", "a:1:2:3:4", "a:0"])
    def test_bad_keys(self, spec: str) -> None:
        with pytest.raises(UsageError):
            parse_key(spec)

    def test_a_group_has_one_set_of_limits(self) -> None:
        SimulatorConfig(keys=(parse_key("a:60@g"), parse_key("b@g")))
        with pytest.raises(UsageError):
            SimulatorConfig(keys=(parse_key("a:60@g"), parse_key("b:30@g")))

    def test_secrets_differ(self) -> None:
        with pytest.raises(UsageError):
            SimulatorConfig(keys=(parse_key("a"), parse_key("a:60")))
        with pytest.raises(UsageError):
            SimulatorConfig(keys=())


class TestFaults:
    def kinds(self, plan: FaultPlan, calls: int, key: str = "key-1", model: str = "m") -> list[int]:
        """Return the numbers of the calls that got a fault."""
        return [n for n in range(1, calls + 1) if plan.pick(key=key, model=model, path="/v1/messages")]

    @pytest.mark.parametrize(
        ("spec", "expected"),
        [
            ("429", [1, 2, 3, 4, 5, 6]),
            ("429,nth=3", [3]),
            ("429,first=2", [1, 2]),
            ("429,after=4", [5, 6]),
            ("429,every=3", [3, 6]),
            ("429,times=2,after=1", [2, 3]),
            ("429,key=key-2", []),
            ("429,model=gpt-*", []),
            ("429,path=/v1/mess*", [1, 2, 3, 4, 5, 6]),
            ("429,p=0", []),
        ],
    )
    def test_which_calls(self, spec: str, expected: list[int]) -> None:
        assert self.kinds(FaultPlan([parse_fault(spec)]), 6) == expected

    def test_the_first_rule_due_has_the_call(self) -> None:
        plan = FaultPlan([parse_fault("503,nth=2"), parse_fault("hang")])
        picked = [plan.pick(key="key-1", model="m", path="/") for _ in range(3)]
        assert [one.kind for one in picked if one] == [FaultKind.HANG, FaultKind.UNAVAILABLE, FaultKind.HANG]

    def test_chance_is_repeatable(self) -> None:
        runs = [self.kinds(FaultPlan([parse_fault("429,p=0.3")], seed=seed), 200) for seed in (1, 1, 2)]
        assert runs[0] == runs[1] != runs[2]
        assert 30 < len(runs[0]) < 90

    @pytest.mark.parametrize("spec", ["", "418", "429,nth", "429,nth=x", "429,nth=0", "429,p=2", "429,p=nan"])
    def test_bad_rules(self, spec: str) -> None:
        with pytest.raises(UsageError):
            parse_fault(spec)

    @pytest.mark.parametrize(
        "spec", ["429,colour=red", "429,nth=1,nth=2", "hang,seconds=-1", "redirect,to=a\r\nset-cookie: b"]
    )
    def test_bad_values(self, spec: str) -> None:
        with pytest.raises(UsageError):
            parse_fault(spec)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.02, "20ms"), (1.5, "1.5s"), (60, "1m0s"), (360, "6m0s"), (3723.25, "1h2m3.25s"), (0.0001, "1ms")],
)
def test_durations(seconds: float, text: str) -> None:
    assert go_duration(seconds) == text
