"""Pictures: functions (data or fitted estimator, ax=None) -> Axes, in one style and one palette that colour-blind readers can tell apart."""

from knoll.plots.model import gaussian
from knoll.plots.points import scatter

__all__ = ["gaussian", "scatter"]
