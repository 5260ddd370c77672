"""Figures, their ratios, and how they are told."""

import json
import os

import pytest

from bench.figures import Figure, as_json, as_line, from_json, percentile
from bench.usage import usage_of


def test_a_figure_holds_up_to_its_limit() -> None:
    assert Figure("chain", 30.0, "ms", 30.0).ok
    assert not Figure("chain", 30.1, "ms", 30.0).ok
    assert Figure("chain", 15.0, "ms", 30.0).ratio == 0.5
    assert "OVER" in as_line(Figure("chain", 60.0, "ms", 30.0, "median of 3"))


def test_the_last_line_is_json_with_what_is_asked() -> None:
    told = json.loads(as_json([Figure("chain", 15.0, "ms", 30.0, "median of 3")]))
    assert told == {
        "figures": [{"name": "chain", "value": 15.0, "unit": "ms", "limit": 30.0, "ratio": 0.5, "ok": True}]
    }
    assert from_json(json.dumps(told)) == [Figure("chain", 15.0, "ms", 30.0)]


@pytest.mark.parametrize(("share", "value"), [(0.5, 10), (0.95, 19), (1.0, 20), (0.0, 1)])
def test_percentiles_are_values_that_were_measured(share: float, value: int) -> None:
    assert percentile(list(range(1, 21)), share) == value


def test_usage_counts_a_process_and_its_descendants() -> None:
    own = usage_of([os.getpid()])
    assert own.processes >= 1 and own.cpu_s > 0 and own.pss_mb > 1
    assert usage_of([2**22 + 1]).cpu_s == 0
