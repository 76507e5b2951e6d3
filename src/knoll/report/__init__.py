"""The tour: the paper's figures, tables and relations, made anew from the library's own fits, as one page."""

from __future__ import annotations

from knoll.report.picture import Panel, Picture

__all__ = ["Panel", "Picture"]
