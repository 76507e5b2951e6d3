"""Pictures: functions (data or fitted estimator, ax=None) -> Axes, in one style and one colour-blind-safe palette."""

from knoll.plots.climb import climb
from knoll.plots.model import gaussian
from knoll.plots.points import scatter

__all__ = ["climb", "gaussian", "scatter"]
