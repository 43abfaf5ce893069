"""The model of the exchange finds the numbers that times were made with, and a slower link is never the faster one."""

import pytest

from benchmarks.links import BANDWIDTHS, UNSHAPED, Measured, Model, Run, judge

ALONE = {
    "2.4 M": Measured(seconds=2.0, backward=1.2, bytes=10e6),
    "20 M": Measured(seconds=12.0, backward=7.0, bytes=80e6),
}
LINKS = (UNSHAPED, *BANDWIDTHS)


def runs() -> list[Run]:
    return [Run(size=size, machines=n, link=link) for size in ALONE for n in (2, 4) for link in LINKS]


def planted(hidden: float, per_byte: float) -> dict[Run, float]:
    model = Model(ALONE, cores=2)
    model.hidden, model.per_byte = hidden, per_byte
    return {run: model.seconds(run) for run in runs()}


def test_the_fit_finds_what_times_were_made_with() -> None:
    model = Model(ALONE, cores=2).fit(planted(0.02, 3e-9))
    assert (model.hidden, model.per_byte) == pytest.approx((0.02, 3e-9), rel=1e-3)


def test_without_a_price_a_hidden_exchange_is_ideal_and_a_slow_link_costs() -> None:
    times = planted(1.0, 0.0)
    assert times[Run(size="20 M", machines=2, link="10 Gbit/s")] == pytest.approx(6.0)
    for size in ALONE:
        slow, fast, none = (
            planted(0.0, 1e-9)[Run(size=size, machines=4, link=link)] for link in ("1 Gbit/s", "10 Gbit/s", UNSHAPED)
        )
        assert slow > fast > none


def test_a_model_that_does_not_tell_fails_its_claim() -> None:
    def measured(times: dict[Run, float]) -> dict[Run, Measured]:
        found = {run: Measured(seconds=time, backward=0.0, bytes=0.0) for run, time in times.items()}
        return found | {Run(size=size, machines=1): alone for size, alone in ALONE.items()}

    result, claims = judge(measured(planted(0.02, 3e-9)), ["1 Gbit/s, 1 ms"])
    assert all(claims.values()) and result["not_run"] == {"1 Gbit/s, 1 ms": "this kernel has no netem"}
    aim = result["aims"]["20 M parameters, two machines of one core, 1 Gbit/s"]
    assert aim["met"] is False and aim["reached"] == pytest.approx(6.0 / (6.0 + 0.64 - 0.07 + 0.24), abs=0.01)
    odd = {run: time * (3.0 if run.link == "1 Gbit/s" else 0.5) for run, time in planted(0.02, 3e-9).items()}
    assert not any(judge(measured(odd), [])[1].values())
