"""What the caller says about how a file is to be read; the contents decide the rest.

A field is an option of every command that reads a table (`_READING` of `cli/_options.py`), and a keyword of
`knoll.blocks.open` and `Session.open`. The record is passed whole, from there to the code that obeys it.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, fields
from typing import Any, Self

__all__ = ["BY_CONTENTS", "Reading"]


@dataclass(frozen=True)
class Reading:
    """How a file is to be read.

    Attributes
    ----------
    header : bool or None
        Whether the first line of a text has the names of the columns. Where it is None the contents decide: a line of
        numbers has names if the names that the caller expects are all on it.
    """

    header: bool | None = None

    @classmethod
    def taken_from(cls, options: MutableMapping[str, Any]) -> Self:
        """Remove the options that are fields from others, and return them."""
        return cls(**{field.name: options.pop(field.name) for field in fields(cls) if field.name in options})


BY_CONTENTS = Reading()  # the caller says nothing
