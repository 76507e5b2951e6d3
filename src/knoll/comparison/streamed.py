"""A comparison of a table in blocks: on rows drawn by their contents; its models label all rows, block by block.

Which rows are drawn depends on their contents and the seed alone (docs/decisions/0026-sample.md): not on their order,
nor on the files that they are in. Where there are no more rows than are drawn, it is the comparison in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from knoll._common.blocks import BlockSource
from knoll._common.passes import LocalPasses, Passes, refuse_not_finite_rows
from knoll._common.sample import draw_rows
from knoll._format import listed
from knoll._system import free_memory
from knoll._typing import Ints
from knoll.blocks import TableBlocks
from knoll.exceptions import BadData, InvalidParameter
from knoll.tables.table import Table
from knoll.tables.typed import frame_table

if TYPE_CHECKING:
    from knoll.comparison.result import Candidate, Comparison

__all__ = ["labels_by_block", "labels_of_file", "note_of", "sampled_table"]

ROWS = 200_000  # drawn at most
_SHARE = 16  # of the memory, they take one of so many shares at most
_WHOLE = 2.0**53  # float64 holds every whole number below


def sampled_table(
    rows: TableBlocks, columns: Sequence[str] | None, seed: int, threads: int, **options: Any
) -> tuple[Table, int]:
    """Return the rows to compare the answers on, as a table, and how many rows there are.

    `options` are those of `frame_table`: types and logarithms are recognised in the drawn rows.
    """
    if columns is not None:
        raise InvalidParameter(
            "columns: name those of a table in blocks where it is opened, knoll.blocks.open(columns=)."
        )
    if rows.weight is not None:
        raise BadData("compare has no weights of rows. Open the blocks without weight=.")
    source = BlockSource(rows, None, owner="compare")
    source.require_rows()
    passes = LocalPasses(source, source.dtype, threads)
    refuse_not_finite_rows(passes, None)
    count = passes.rows
    drawn = draw_rows(passes, count, seed, min(ROWS, _affordable(passes)))
    table = frame_table(_arrow(rows, drawn), **options)
    assert table.schema is not None
    if not table.schema.is_plain:
        others = [column.name for column in table.schema.used if column.type != "number"]
        raise BadData(
            f"a table in blocks is compared by its numbers, and {listed(others)} "
            f"{'is' if len(others) == 1 else 'are'} of another type. Name the other columns, or compare a sample that "
            "fits into memory."
        )
    return replace(table, name=rows.parts[0].name), count


def note_of(drawn: int, count: int) -> str:
    """Report on how many rows the answers were compared."""
    if drawn == count:
        return f"read in blocks; all {count} rows were compared."
    return f"read in blocks; compared on {drawn} of {count} rows, drawn by their contents."


def labels_by_block(found: Comparison, candidate: Candidate, rows: TableBlocks) -> Iterator[Ints]:
    """Yield the labels of all rows by the model of an answer, block by block."""
    for number in range(len(rows.parts)):
        yield from labels_of_file(found, candidate, rows, number)


def labels_of_file(found: Comparison, candidate: Candidate, rows: TableBlocks, number: int) -> Iterator[Ints]:
    """Yield those of one file."""
    preparation = found.preparation(candidate)
    columns = [rows.columns.index(name) for name in found.scaling.columns]
    for block in rows.part(number):
        points = np.asarray(block, dtype=np.float64)[:, columns]
        yield np.asarray(candidate.model.predict(preparation.apply(points)), dtype=np.int64)


def _affordable(passes: Passes) -> int:
    return max(1_000, free_memory() // _SHARE // (8 * passes.columns))


def _arrow(rows: TableBlocks, drawn: Any) -> Any:
    """Return drawn rows as a table of Arrow: whole numbers that a file has as such are whole again."""
    import pyarrow as pa

    with rows.parts[0].open(rows.columns) as source:
        schema = source.head.schema
    columns = []
    for name, values in zip(rows.columns, drawn.T, strict=True):
        dtype = schema.field(name).type if name in schema.names else pa.float64()
        whole = not pa.types.is_floating(dtype) and bool((values == np.floor(values)).all())
        numbers = np.ascontiguousarray(values)
        columns.append(pa.array(numbers.astype(np.int64) if whole and np.abs(values).max() < _WHOLE else numbers))
    return pa.table(columns, names=list(rows.columns))
