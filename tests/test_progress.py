"""Progress in words: one line that is rewritten on a terminal, and a line now and then elsewhere."""

import io

import pytest
from rich.console import Console

from gedi.progress import Progress, ProgressLine, duration


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def shown(clock, terminal, *places):
    """What is written if the run is at each place (seconds, doing, iteration, total) in turn."""
    file = io.StringIO()
    line = ProgressLine(Console(file=file, force_terminal=terminal, width=80), clock)
    for clock.now, *place in places:
        line(Progress(*place))
    line.close()
    return file.getvalue()


def test_durations_are_in_the_unit_that_fits():
    assert [duration(seconds) for seconds in (7.4, 420, 4e4)] == ["7 s", "7 min", "11 h"]


def test_a_log_has_a_line_now_and_then_and_one_at_the_end_of_every_part(clock):
    doing = "fitting the density"
    places = [(i, doing, i, 40) for i in range(1, 41)] + [(41, "choosing")] + [(42, "finding clusters", 3, 3)]
    assert shown(clock, False, *places).splitlines() == [
        "fitting the density, 12%, 35 s left",
        "fitting the density, 37%, 25 s left",
        "fitting the density, 87%, 5 s left",
        "fitting the density: done, 40 iterations in 39 s",
        "finding clusters: done, 3 iterations in 0 s",
    ]


def test_a_terminal_has_one_line_that_is_rewritten(clock):
    doing = "finding clusters"
    text = shown(clock, True, (0.5, doing, 1, 10), (0.6, doing, 2, 10), (4.5, doing, 5, 10), (5.5, "saving"))
    assert "finding clusters, 10%" in text and "\x1b[2Kfinding clusters, 50%, 5 s left" in text
    assert "20%" not in text  # too soon after the one before
    assert "\x1b[2Ksaving" in text and text.endswith("\x1b[2K")


def test_time_left_is_counted_from_where_a_run_was_resumed(clock):
    text = shown(clock, True, (0.5, "a", 500, 600), (10.5, "a", 550, 600))
    assert "a, 83%\r" in text and "a, 91%, 10 s left" in text


def test_a_part_that_ends_early_is_done_when_its_total_says_so(clock):
    assert shown(clock, False, (1, "a", 50, 800), (3, "a", 90, 90)) == "a: done, 90 iterations in 2 s\n"
