"""How large a table may be: files that unpack to far more than their size, or to more than fits, are refused early."""

from __future__ import annotations

from knoll._system import free_memory
from knoll.exceptions import BadData

__all__ = ["MOST_COLUMNS", "check_unpacked", "check_width"]

MOST_COLUMNS = 50_000  # more are a table with rows and columns swapped
_BOMB = (1 << 26, 300)  # bytes, and times the size of the file: no table of that size is packed so tightly


def check_unpacked(unpacked: int, packed: int | None, name: str, remedy: str = "unpack it first") -> None:
    """Refuse what takes more than half of the free memory, or far more than the bytes of its file, `packed`."""
    most = free_memory() // 2
    if unpacked > most:
        raise BadData(
            f"{name} unpacks to more than {most / 1e9:.2g} GB, half of the memory that is free. "
            "Take fewer rows, or the columns you need."
        )
    least, ratio = _BOMB
    if packed is not None and unpacked > least and unpacked > ratio * packed:
        raise BadData(
            f"{name} unpacks to more than {ratio} times its size, which no table does. If it is one, {remedy}."
        )


def check_width(columns: int, name: str) -> None:
    """Refuse a table with more columns than can be meant."""
    if columns > MOST_COLUMNS:
        raise BadData(
            f"{name} has {columns} columns; at most {MOST_COLUMNS} are supported. "
            "If rows and columns are swapped, transpose the table; else keep the columns that matter."
        )
