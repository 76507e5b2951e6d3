"""Cases in which the random search once found a defect, or a law that was wrong."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from fuzz.case import make_case  # noqa: E402
from fuzz.runner import check_case  # noqa: E402

FOUND = {
    "gaussian": [31603865, 31610202, 31610896, 32006761],
    "mixture": [31600508, 31602363, 31604848, 31606007],
    "kmeans": [
        1000034,
        1000214,
        1001019,
        1001427,
        1001446,
        1001887,
        2000370,
        2001035,
        2500626,
        2700765,
        2801014,
        7108651,
    ],
    "kernel_kmeans": [1000462, 2501482, 2501820, 2502387, 7101506, 61002053],
    "spectral": [1000483, 1000727, 2000088, 2700116, 2701644, 31601947, 31602333, 31602489, 31602720, 52800693],
    "dbscan": [1001512, 1002688, 1002915, 2000407, 2700120, 2700739, 2701235, 2801369],
    "density_tree": [3000127, 31604685, 31608217, 31611806, 32005873, 32011173, 32101768],
    "hdbscan": [32002118, 32002420, 32002665, 52801139, 52801499, 52802286],
    "optics": [52800159, 52801023, 52801890, 52903506],
    "agglomerative": [52800017, 52800260, 52801465, 52805887, 52807716, 61006268, 61006682, 61008380],
    "mean_shift": [1000641, 1002370, 1003429, 1003488, 2700535, 7100221, 7101443, 7105433, 31603341, 61006247],
    "scales": [1000074, 1000896, 1000897, 1004838],
    "mixed_mixture": [
        53500003,
        53500026,
        53500038,
        53500058,
        53500291,
        53500436,
        53500498,
        53500510,
        53500774,
        53501553,
        53502542,
        57000005,
        57000112,
        57201532,
    ],
    "kprototypes": [
        53600234,
        53600327,
        53600491,
        53600577,
        53601061,
        53601305,
        56700003,
        57100130,
        57100188,
        57300954,
        57501468,
        61003371,
    ],
    "gower": [53400006, 53400039, 53400067, 61004316],
    "explain": [53700013, 53700027, 53700082, 56800496, 57402720, 57403436, 57700421],
    "compare": [32000070, 32000148, 32001645, 52800160, 52801454, 60003383, 60006811, 61007189, 61008076],
}


@pytest.mark.parametrize(("name", "seed"), [(name, seed) for name, seeds in FOUND.items() for seed in seeds])
def test_what_was_found_stays_fixed(name, seed):
    family = importlib.import_module(f"fuzz.families.{name}").FAMILY
    assert [f"{failure.law}: {failure.text}" for failure in check_case(make_case(family, seed))] == []
