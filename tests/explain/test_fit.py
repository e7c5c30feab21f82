"""Fits of made-up blocks whose truth is known."""

from dataclasses import replace

import numpy as np
import pytest

from harness.explain.fit import (
    Block,
    Change,
    Estimate,
    Fit,
    Prediction,
    Refusal,
    TooFewBlocks,
    predict_all,
)

US = 1000.0
LEVELS_US = (100, 200, 400, 800)


def blocks(latency_us, rounds=20, noise_us=0.0, drift_us=0.0, levels_us=LEVELS_US, seed=1):
    """Blocks of ``latency_us(delay in us)``, whose delays are achieved 20 us late."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(rounds):
        shift = drift_us * number / rounds + random.normal(0, drift_us / 4)
        for planted_us in levels_us:
            delay_us = planted_us + 20 + random.normal(0, 3)
            latency = latency_us(delay_us) + shift + random.normal(0, noise_us)
            found.append(Block(number, int(planted_us * US), delay_us * US, latency * US))
    return found


def line(slope, base_us=1000):
    return lambda delay_us: base_us + slope * delay_us


@pytest.mark.parametrize("slope", [0.0, 1.0, 2.1])
def test_a_line_is_recovered_in_noise_and_drift(slope):
    fit = Fit(blocks(line(slope), noise_us=30, drift_us=300))
    assert fit.linear
    assert fit.slope.low <= slope <= fit.slope.high
    assert fit.slope.high - fit.slope.low < 0.2
    assert fit.at(0).value == pytest.approx(1150 * US, rel=0.1)  # with half of the drift
    assert [level.planted_ns for level in fit.levels] == [us * 1000 for us in LEVELS_US]
    assert [level.delay_ns for level in fit.levels] == pytest.approx(
        [(us + 20) * US for us in LEVELS_US], rel=0.05
    )


def test_a_faster_device_is_predicted_within_the_interval():
    """1,000 us without an added delay, of which the device has 300."""
    found = Fit(blocks(line(1.5), noise_us=20)).predict(-300 * US)
    assert isinstance(found, Estimate)
    assert found.low <= 550 * US <= found.high
    assert found.value == pytest.approx(550 * US, rel=0.05)


@pytest.mark.parametrize("rounds", [6, 10])
def test_intervals_of_few_rounds_contain_slope_and_prediction_as_often_as_they_say(rounds):
    """142 of 150; plain percentiles contain the slope 137 and 139 times."""
    slopes = predictions = linear = 0
    for seed in range(150):
        fit = Fit(blocks(line(1.0, base_us=500), rounds, noise_us=30, seed=seed))
        found = fit.at(-200 * US)
        predictions += found.low <= 300 * US <= found.high
        slopes += fit.slope.low <= 1.0 <= fit.slope.high
        linear += fit.linear
    assert slopes >= 142
    assert predictions >= 142
    assert linear >= 142


def test_blocks_in_which_something_else_happened_have_no_pull():
    made = blocks(line(1.0), noise_us=10)
    stalled = [
        Block(b.round, b.planted_ns, b.delay_ns, b.latency_ns * (20 if b.round in (3, 9) else 1))
        for b in made
        if (b.round, b.planted_ns) != (5, 100_000)  # and one is missing
    ]
    fit = Fit(stalled)
    assert fit.slope.value == pytest.approx(1.0, abs=0.05)
    assert fit.at(0).value == pytest.approx(1000 * US, rel=0.05)


def test_a_busy_machine_that_lengthens_delays_and_latencies_does_not_make_the_slope():
    """Within a level, latency grows ten times as fast as the achieved delay."""
    random = np.random.default_rng(4)
    made = []
    for block in blocks(line(0.5), rounds=30, noise_us=5):
        busy_ns = random.exponential(100 * US)
        latency_ns = block.latency_ns + 5 * busy_ns
        made.append(Block(block.round, block.planted_ns, block.delay_ns + busy_ns / 2, latency_ns))
    fit = Fit(made)
    assert fit.slope.low <= 0.5 <= fit.slope.high
    assert fit.slope.high < 1.0


def stalling(seed, share=0.15, rounds=15, levels_us=(200, 400, 600, 800, 1000)):
    """Half of the operations wait for a call of 2 ms on a disk with stalls, and 120 us elsewhere;
    where the processors are busy, both take longer."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(rounds):
        for planted_us in levels_us:
            busy = 1 + random.exponential(0.05)
            stall_us = random.exponential(6000) if random.random() < share else 0
            call_us = 2000 * busy * random.lognormal(0, 0.1) + stall_us
            delay_us = planted_us + 20 * busy
            latency_us = 120 * busy + 0.5 * (call_us + delay_us)
            found.append(
                Block(number, planted_us * 1000, delay_us * US, latency_us * US, call_us * US)
            )
    return found


def test_stalls_of_the_device_move_no_prediction():
    """A faster device is predicted with 26 us of error, where a disk's stalls add milliseconds."""
    for seed in range(4):
        made = stalling(seed)
        mean_us = np.mean([block.call_ns for block in made]) / US
        found = Fit(made, mean_us * US).predict((500 - mean_us) * US)
        assert isinstance(found, Estimate)
        assert found.value == pytest.approx((126 + 250) * US, rel=0.07)
        unknown = Fit([replace(block, call_ns=None) for block in made])
        assert isinstance(unknown.predict((500 - mean_us) * US), Refusal)


@pytest.mark.parametrize(
    "curve",
    [
        lambda us: 1000 + us**2 / 400,  # steeper and steeper
        lambda us: 1000 + 20 * us**0.5,  # group commit: it flattens
        lambda us: 1000 + 2 * max(0, us - 300),  # hidden by other work at first
    ],
)
def test_a_curve_is_not_extrapolated(curve):
    fit = Fit(blocks(curve, noise_us=15))
    assert not fit.linear
    refused = fit.predict(-100 * US)
    assert isinstance(refused, Refusal)
    assert refused.code == "not-linear"


def test_levels_that_reverse_are_not_extrapolated():
    """As measured with client and server on one processor: +200 us is faster than +100 us."""
    measured_us = {120: 935, 220: 751, 420: 923, 820: 1299}

    def bent(delay_us):
        return measured_us[min(measured_us, key=lambda known: abs(known - delay_us))]

    refused = Fit(blocks(bent, noise_us=40)).predict(0)
    assert isinstance(refused, Refusal)
    assert refused.code == "not-monotonic"


@pytest.mark.parametrize(
    ("delay_us", "floor_us", "code"), [(-900, None, "below-zero"), (-300, 700, "below-floor")]
)
def test_a_prediction_that_cannot_be_is_refused(delay_us, floor_us, code):
    fit = Fit(blocks(line(1.5), noise_us=5))
    refused = fit.predict(delay_us * US, None if floor_us is None else floor_us * US)
    assert isinstance(refused, Refusal)
    assert refused.code == code
    assert refused.line == fit.at(delay_us * US)


def test_a_prediction_from_noise_is_refused():
    refused = Fit(blocks(line(1.0, base_us=500), rounds=8, noise_us=600)).predict(-200 * US)
    assert isinstance(refused, Refusal)


def test_what_two_operations_save_adds_up():
    """1,000 us without an added delay, of which they save 300 and 200."""
    one, other = (
        Fit(blocks(line(slope), noise_us=5, seed=seed)) for slope, seed in ((1.5, 1), (1, 2))
    )
    found = predict_all([Change(one, -200 * US), Change(other, -200 * US)])
    assert isinstance(found, Prediction)
    assert found.now.value == pytest.approx(1000 * US, rel=0.01)
    assert found.latency.value == pytest.approx(500 * US, rel=0.02)
    assert found.speed_up.low < found.speed_up.value == pytest.approx(2.0, rel=0.02)
    assert found.speed_up.value < found.speed_up.high
    assert predict_all([Change(one, -200 * US)]).latency == one.predict(-200 * US)


def test_what_is_refused_of_one_is_refused_of_all():
    sure, steep = Fit(blocks(line(1.0))), Fit(blocks(line(5.0)))
    for changes, code in (
        ([Change(sure, -200 * US), Change(steep, -900 * US)], "below-zero"),
        ([Change(sure, -600 * US), Change(steep, -100 * US)], "below-zero"),  # only together
        ([Change(sure, 0, 1500 * US)], "below-floor"),
        ([Change(sure, 0), Change(Fit(blocks(line(1.0, base_us=2000))), 0)], "too-uncertain"),
    ):
        refused = predict_all(changes)
        assert isinstance(refused, Refusal)
        assert refused.code == code


def with_undelayed(us, noise_us=10, calls=4000, read_ahead_us=0):
    """A scan of 200 ms and 4,000 reads of 20 us; without a delay it takes ``us`` and its reads
    wait for ``read_ahead_us`` more each."""
    random = np.random.default_rng(5)
    found = [
        replace(one, call_ns=20 * US)
        for one in blocks(line(calls, base_us=200_000), rounds=8, noise_us=2000)
    ]
    return found + [
        Block(number, 0, 0.0, random.normal(us, noise_us) * US, (20 + read_ahead_us) * US)
        for number in range(8)
    ]


@pytest.mark.parametrize(
    ("undelayed", "refused"),
    [
        (with_undelayed(200_000, noise_us=5000), False),
        (
            with_undelayed(520_000, noise_us=5000, read_ahead_us=80),
            False,
        ),  # on the line all the same
        (with_undelayed(700_000, noise_us=5000, read_ahead_us=80), True),
        (with_undelayed(120_000, noise_us=5000), True),
        (with_undelayed(215_000, noise_us=2000), False),  # off, but by little of the prediction
        (with_undelayed(400_000, noise_us=300_000), False),  # noise
        (with_undelayed(700_000, noise_us=5000)[:-3], False),  # too few of them
    ],
)
def test_a_line_that_misses_the_present_device_is_not_extended_to_a_faster_one(undelayed, refused):
    fit = Fit(undelayed, 20 * US)
    assert fit.linear
    found = fit.predict(-10 * US, 50_000 * US)
    assert isinstance(found, Refusal) == refused
    if refused:
        assert found.code == "not-through-present"
        assert found.line == fit.at(-10 * US)
    assert fit.levels[0].planted_ns > 0


def test_too_few_rounds_are_no_fit():
    with pytest.raises(TooFewBlocks):
        Fit(blocks(line(1.0), rounds=3))
