"""Property tests look at new examples each time; in automatic runs at the same ones, so that red means a change."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("fresh", deadline=None, print_blob=True)
settings.load_profile("fixed" if os.environ.get("CI") else "fresh")
