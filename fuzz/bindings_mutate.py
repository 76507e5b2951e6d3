"""Changes that make a valid call wrong, or unusual: lengths, strides, dtypes, contents, aliasing, numbers, None.

A mutation takes the list of a call's arguments and a random generator, changes some of them and reports what it did; it
returns None where it does not apply. Every array is a copy that the call may write to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Arguments = list[Any]
Generator = np.random.Generator
Mutation = Callable[[Arguments, Generator], str | None]

INTEGERS = [-(2**63), -(2**31) - 1, -2, -1, 0, 1, 2, 3, 7, 65, 2**15, 2**16, 2**31 - 1, 2**31, 2**62, 2**63 - 1, 2**64]
FLOATS = [
    np.nan,
    np.inf,
    -np.inf,
    -1.0,
    -0.0,
    0.0,
    5e-324,
    1e-310,
    1e-160,
    0.5,
    1.0,
    3.0,
    1e16,
    1e160,
    1.7e308,
    -1.7e308,
]
TEXTS = [
    "", "auto", "tree", "tiles", "grid", "euclidean", "manhattan", "chebyshev", "minkowski", "cosine", "haversine",
    "closest", "first", "noise", "rbf", "heaviside", "poly", "linear", "lloyd", "hamerly", "elkan", "nonsense", "\0",
]  # fmt: skip
DTYPES = ["f8", "f4", "f2", "i8", "i4", "u8", "u4", "u1", "i1", "?", "c16", "O", "S3", ">f8", ">i8", ">i4", "M8[s]"]


def pick(rng: Generator, choices: Any) -> Any:
    """Choose one of some."""
    return choices[int(rng.integers(len(choices)))]


def arrays_of(args: Arguments, least: int = 0) -> list[int]:
    """List the arguments that are arrays of at least so many elements."""
    return [i for i, a in enumerate(args) if isinstance(a, np.ndarray) and a.size >= least]


def one_array(args: Arguments, rng: Generator, least: int = 0) -> int | None:
    """Choose an argument that is an array."""
    found = arrays_of(args, least)
    return pick(rng, found) if found else None


def resized(array: Any, axis: int, length: int) -> Any:
    """Cut an array, or repeat its entries, to another length along an axis."""
    if array.shape[axis] == 0:
        return np.zeros((*array.shape[:axis], length, *array.shape[axis + 1 :]), array.dtype)
    return np.take(array, np.arange(length) % array.shape[axis], axis=axis)


def other_length(args: Arguments, rng: Generator) -> str | None:
    """Change the length of one array along one axis."""
    if (i := one_array(args, rng)) is None or args[i].ndim == 0:
        return None
    axis = int(rng.integers(args[i].ndim))
    length = args[i].shape[axis]
    new = int(pick(rng, [0, 1, length - 1, length + 1, 2 * length, length // 2, length + 37]))
    args[i] = resized(args[i], axis, max(new, 0))
    return f"argument {i}: axis {axis} of length {max(new, 0)}, was {length}"


def common_length(args: Arguments, rng: Generator) -> str | None:
    """Change a length wherever it occurs, so that the shapes go on to agree."""
    if (i := one_array(args, rng)) is None or args[i].ndim == 0:
        return None
    length = args[i].shape[int(rng.integers(args[i].ndim))]
    new = int(pick(rng, [0, 1, 2, 3, 31, 33, 64, 129, length + 1, max(length - 1, 0), min(2 * length, 6000)]))
    for j, value in enumerate(args):
        if isinstance(value, np.ndarray):
            for axis in range(value.ndim):
                if value.shape[axis] == length and args[j].size // max(length, 1) * new < 200_000:
                    args[j] = resized(args[j], axis, new)
        elif type(value) is int and value == length and rng.random() < 0.7:
            args[j] = new
    return f"length {length} is {new} everywhere"


def other_rank(args: Arguments, rng: Generator) -> str | None:
    """Give an array another number of dimensions."""
    if (i := one_array(args, rng)) is None:
        return None
    args[i] = pick(rng, [args[i].reshape(-1), args[i][None], args[i][..., None], args[i].reshape(-1)[:1].reshape(())
                         if args[i].size else args[i].reshape(-1)])  # fmt: skip
    return f"argument {i}: shape {args[i].shape}"


def other_dtype(args: Arguments, rng: Generator) -> str | None:
    """Convert an array."""
    if (i := one_array(args, rng)) is None:
        return None
    dtype = pick(rng, DTYPES)
    with np.errstate(all="ignore"):
        try:
            args[i] = args[i].astype(dtype)
        except (TypeError, ValueError):
            args[i] = np.zeros(args[i].shape, dtype)
    return f"argument {i}: dtype {dtype}"


def strided(array: Any, rng: Generator) -> tuple[Any, str]:
    """Lay the same values out otherwise."""
    layout = pick(rng, ["steps", "negative", "fortran", "reversed axes", "zero", "overlapping rows", "large"])
    if array.ndim == 0:
        return array, "as it was"
    if layout == "fortran":
        return np.asfortranarray(array), layout
    if layout == "negative":
        axis = int(rng.integers(array.ndim))
        return np.flip(np.flip(array, axis).copy(), axis), layout
    if layout == "reversed axes":
        return np.flip(np.flip(array).copy()), layout
    if layout == "zero" and array.size:
        strides = tuple(0 if rng.random() < 0.6 else s for s in array.strides)
        return np.lib.stride_tricks.as_strided(array, strides=strides, writeable=True), layout
    if layout == "overlapping rows" and array.ndim == 2 and array.size:
        flat = np.resize(array, sum(array.shape))
        step = flat.strides[0]
        return np.lib.stride_tricks.as_strided(flat, array.shape, (step, step), writeable=True), layout
    factor = 1000 if layout == "large" and array.size < 5000 else int(rng.integers(2, 5))
    axis = int(rng.integers(array.ndim))
    shape = list(array.shape)
    shape[axis] *= factor
    whole = np.zeros(shape, array.dtype)
    cut = tuple(slice(None, None, factor if a == axis else None) for a in range(array.ndim))
    whole[cut] = array
    return whole[cut], f"{layout} of {factor} along axis {axis}"


def other_strides(args: Arguments, rng: Generator) -> str | None:
    """Give an array strides of any sign and size, or zero."""
    if (i := one_array(args, rng)) is None:
        return None
    args[i], change = strided(args[i], rng)
    return f"argument {i}: strides, {change}"


def unaligned(args: Arguments, rng: Generator) -> str | None:
    """Put an array at an odd address."""
    if (i := one_array(args, rng)) is None or args[i].dtype.hasobject or args[i].ndim == 0:
        return None
    array = np.ascontiguousarray(args[i])
    buffer = np.zeros(array.nbytes + 1, np.uint8)
    moved = buffer[1:].view(array.dtype).reshape(array.shape)
    moved[...] = array
    args[i] = moved
    return f"argument {i}: unaligned"


def read_only(args: Arguments, rng: Generator) -> str | None:
    """Forbid writing."""
    if (i := one_array(args, rng)) is None:
        return None
    args[i] = args[i].view()
    args[i].setflags(write=False)
    return f"argument {i}: read-only"


def same_memory(args: Arguments, rng: Generator) -> str | None:
    """Let two arrays overlap, wholly or partially, whatever their dtypes."""
    found = [i for i in arrays_of(args, 1) if not args[i].dtype.hasobject and args[i].ndim]
    if len(found) < 2:
        return None
    i, j = (int(k) for k in rng.choice(found, 2, replace=False))
    a, b = np.ascontiguousarray(args[i]), np.ascontiguousarray(args[j])
    shift = int(pick(rng, [0, 0, 0, 8, 16, 64, max(a.nbytes // 2 // 8 * 8, 0)]))
    buffer = np.zeros(max(a.nbytes, b.nbytes + shift) + 16, np.uint8)
    first = buffer[: a.nbytes].view(a.dtype).reshape(a.shape)
    second = buffer[shift : shift + b.nbytes].view(b.dtype).reshape(b.shape)
    if rng.random() < 0.5:
        second[...] = b
        first[...] = a
    else:
        first[...] = a
        second[...] = b
    args[i], args[j] = first, second
    return f"arguments {i} and {j} overlap, {shift} bytes apart"


def contents(args: Arguments, rng: Generator) -> str | None:
    """Put values into an array that do not belong there."""
    if (i := one_array(args, rng, 1)) is None:
        return None
    array = args[i] = np.array(args[i])
    lengths = [n for a in args if isinstance(a, np.ndarray) for n in a.shape]
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        value = int(pick(rng, [*INTEGERS, *lengths, *(-n for n in lengths), *(n - 1 for n in lengths)]))
        value = min(max(value, int(limits.min)), int(limits.max))
    elif array.dtype.kind == "f":
        value = pick(rng, FLOATS)
    elif array.dtype.kind == "b":  # bytes that are neither 0 nor 1
        array.view(np.uint8)[...] = rng.integers(0, 256, array.shape, np.uint8)
        return f"argument {i}: any bytes as truth values"
    else:
        return None
    share = pick(rng, [0.0, 0.0, 0.05, 0.5, 1.0])
    where = rng.random(array.shape) < share
    if array.ndim:
        where.reshape(-1)[int(pick(rng, [0, array.size - 1, rng.integers(array.size)]))] = True
    with np.errstate(all="ignore"):
        array[where] = value
    return f"argument {i}: {value} in {int(where.sum())} of {array.size} entries"


def shuffled(args: Arguments, rng: Generator) -> str | None:
    """Put the values of an array into another order."""
    if (i := one_array(args, rng, 2)) is None:
        return None
    args[i] = rng.permutation(args[i].reshape(-1)).reshape(args[i].shape)
    return f"argument {i}: shuffled"


def other_number(args: Arguments, rng: Generator) -> str | None:
    """Change a number, a truth value or a text."""
    found = [i for i, a in enumerate(args) if isinstance(a, bool | int | float | str | tuple)]
    if not found:
        return None
    i = pick(rng, found)
    old = args[i]
    if isinstance(old, tuple):
        changed: Arguments = list(old)
        other_number(changed, rng)
        args[i] = tuple(changed)
    elif isinstance(old, str):
        args[i] = pick(rng, TEXTS)
    elif isinstance(old, bool):
        args[i] = not old
    elif isinstance(old, int):
        args[i] = pick(rng, INTEGERS)
    else:
        args[i] = pick(rng, FLOATS)
    return f"argument {i}: {args[i]!r}, was {old!r}"


def other_type(args: Arguments, rng: Generator) -> str | None:
    """Replace an argument by something of another type."""
    if not args:
        return None
    i = int(rng.integers(len(args)))
    args[i] = pick(rng, [None, None, 0, 1.5, "x", [], [1.0, 2.0], (), b"1234", object(), np.float64(2), np.zeros(0)])
    return f"argument {i}: {args[i]!r}"


def swapped(args: Arguments, rng: Generator) -> str | None:
    """Exchange two arguments."""
    if len(args) < 2:
        return None
    i, j = (int(k) for k in rng.choice(len(args), 2, replace=False))
    args[i], args[j] = args[j], args[i]
    return f"arguments {i} and {j} exchanged"


def other_count(args: Arguments, rng: Generator) -> str | None:
    """Leave the last argument out, or add one."""
    if args and rng.random() < 0.5:
        args.pop()
        return "the last argument is missing"
    args.append(pick(rng, [None, 1, np.zeros(3)]))
    return f"one more argument, {args[-1]!r}"


# What the package itself checks least comes most often.
MUTATIONS: list[tuple[Mutation, float]] = [
    (contents, 8), (other_number, 6), (same_memory, 4), (common_length, 4), (other_strides, 4), (other_length, 3),
    (unaligned, 1), (shuffled, 1), (read_only, 1), (other_dtype, 1), (other_rank, 0.5), (other_type, 1), (swapped, 0.5),
    (other_count, 0.3),
]  # fmt: skip
_SHARES = np.array([share for _, share in MUTATIONS]) / sum(share for _, share in MUTATIONS)


def mutate(args: Arguments, rng: Generator) -> list[str]:
    """Change some of the arguments in place; return how."""
    changes: list[str] = []
    for _ in range(20):
        mutation = MUTATIONS[int(rng.choice(len(MUTATIONS), p=_SHARES))][0]
        try:
            change = mutation(args, rng)
        except Exception:  # NumPy's own: a second change may not apply to what the first has made, such as dates
            continue
        if change is not None:
            changes.append(change)
        if changes and rng.random() < 0.6:
            break
    return changes
