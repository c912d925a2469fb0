"""Places of values in plots."""

from __future__ import annotations

import pytest

from sessions_app.presentation.plots import PlotArea, points_text, scale_up_to


def test_values_fill_area_from_bottom_to_limit():
    area = PlotArea(columns=4, top=10.0, height=100.0, limit=2.0)
    assert [area.y(value) for value in (0.0, 0.5, 2.0)] == [110.0, 85.0, 10.0]
    assert area.bottom == area.y(0.0)


def test_columns_divide_width_evenly():
    area = PlotArea(columns=4, top=0.0, height=1.0)
    assert [area.x(column) for column in range(4)] == [12.5, 37.5, 62.5, 87.5]


@pytest.mark.parametrize(
    ("largest", "values"),
    [
        (0.0, [0.0, 0.5, 1.0]),
        (7.0, [0.0, 2.0, 4.0, 6.0, 8.0]),
        (0.3, [0.0, 0.1, 0.2, 0.3]),
        (1000.0, [0.0, 500.0, 1000.0]),
    ],
)
def test_scale_has_round_steps_up_to_largest_value(largest, values):
    assert scale_up_to(largest) == values


def test_scale_has_no_step_below_smallest_one():
    assert scale_up_to(1.0, smallest_step=1.0) == [0.0, 1.0]


def test_points_are_separated_by_spaces():
    assert points_text([(0.0, 1.5), (2, 3)]) == "0.0,1.5 2,3"
