"""Values of a column as people write them: digits that fit the column, units and dates in their own form."""

from __future__ import annotations

import numpy as np
import pytest

from knoll._format import column_format, share


@pytest.mark.parametrize(
    ("values", "options", "value", "text"),
    [
        ([0.0, 1.0, 1.0, 0.0], {}, -2.776e-14, "0"),
        ([0.0, 1.0, 0.5, 0.25], {}, 7.438e-15, "0.00"),
        ([3, 21, 8, 14], {}, 21.0, "21"),
        ([3, 21, 8, 14], {}, 21.5, "21.5"),
        ([5.1, 4.9, 6.3, 5.8], {}, 5.849, "5.8"),
        ([5.1, 4.9, 6.3, 5.8], {}, -1.0, "−1.0"),
        ([100_000.0, 250_000.0], {}, 123_456.0, "123\u202f456"),
        ([1234.0, 2234.0], {}, 1234.0, "1234"),
        ([43042.0, 12000.5, 900.25], {"unit": "€", "marks": ".,"}, 43042.4, "€43,042"),
        ([43042.0, 12000.5, 900.25], {"unit": "€", "marks": ".,"}, -1500.0, "−€1,500"),
        ([10.0, 15.25, 18.5], {"unit": "$"}, 12.345, "$12.35"),
        ([10.0, 15.25, 18.5], {"unit": "EUR", "marks": ",."}, 12.345, "12,35 EUR"),
        ([12.0, 7.0, 33.0], {"unit": "%"}, 12.0, "12 %"),
        ([19_000.0, 20_000.0], {"type": "date"}, 19_500.3, "2023-05-23"),
        ([19_000.0, 20_000.0], {"type": "date", "marks": "%d.%m.%Y"}, 19_500.3, "23.05.2023"),
        ([19_000.0, 19_000.5], {"type": "date"}, 19_000.25, "2022-01-08 06:00"),
        ([8.0, 17.5], {"type": "time"}, 14.51, "14:31"),
        ([1e-12, 3e-12], {}, 2e-12, "2e−12"),
        ([1e300, 2e300], {}, 1.5e300, "1.5e+300"),
        ([], {}, 0.0, "0"),
        ([1.0, 2.0], {}, float("nan"), "–"),
        ([1.0, 2.0], {}, None, "–"),
    ],
)
def test_a_value(values, options, value, text):
    assert column_format(np.array(values, dtype=float), **options)(value) == text


@pytest.mark.parametrize(("value", "text"), [(1.75, "1.75"), (2.0, "2"), (0.10000005, "0.10000005"), (1200.0, "1200")])
def test_a_bound_has_all_its_digits(value, text):
    assert column_format(np.array([5.1, 4.9, 6.3, 5.8])).exact(value) == text


@pytest.mark.parametrize(
    ("fraction", "text"), [(0.0, "0 %"), (0.001, "< 1 %"), (0.456, "46 %"), (0.9999, "> 99 %"), (1.0, "100 %")]
)
def test_a_share(fraction, text):
    assert share(fraction) == text


def test_the_order_of_values_does_not_matter():
    values = np.r_[np.arange(5000.0), 0.25]
    assert column_format(values) == column_format(values[::-1])
