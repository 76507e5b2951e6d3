"""Messages: what a page may request, field by field, and the frames that answer (docs/guide/explorer-protocol.md).

A message names an action and its fields. A name that is not listed here is refused, and so is a value of another type;
what a value means is checked where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll.exceptions import InvalidParameter
from knoll.explorer import curves, exports, groups, methods, morph, recommending, row, views
from knoll.explorer.session import Session
from knoll.explorer.state import State
from knoll.explorer.wire import Frame, packed, unpacked, wire_labels
from knoll.validation import Choice, Flag, Instance, Number, Rule, check_parameters

__all__ = ["ACTIONS", "Action", "ask", "check_message", "state_fields"]

Arrays = Mapping[str, NDArray[Any]]
Fields = dict[str, tuple[Rule | None, ...]]
_TEXT = Instance((str,), "a text")
_LIST = Instance((list,), "a list")
_MAPPING = Instance((dict,), "a mapping")
_WHOLE = Number(whole=True)
_ENVELOPE = {"seq", "do", "slot"}
_MOST_TEXT = 1 << 20  # characters of a text in a message
GROUP: tuple[Rule | None, ...] = (_TEXT, _MAPPING)


@dataclass(frozen=True)
class Action:
    """What a message may request."""

    answer: Callable[[Session, dict[str, Any], Arrays], Iterator[Frame]]
    fields: Fields
    quick: bool = False  # answered beside a fit that runs


def check_message(message: Any) -> tuple[Action, dict[str, Any]]:
    """Return the action of a message, and its fields with None for those that are not set."""
    if not isinstance(message, dict) or not isinstance(message.get("do"), str):
        raise InvalidParameter("a message is an object with 'do'.")
    seq = message.get("seq")
    if type(seq) is not int or not 0 <= seq < 2**53:
        raise InvalidParameter("a message has a whole number 'seq'.")
    if not isinstance(message.get("slot", ""), str) or len(message.get("slot", "")) > 40:
        raise InvalidParameter("slot is a short text.")
    action = ACTIONS.get(message["do"])
    if action is None:
        raise InvalidParameter(f"there is no action {message['do']!r:.60}.")
    for name, value in message.items():
        if name not in action.fields and name not in _ENVELOPE:
            raise InvalidParameter(f"{message['do']} has no field {name!r:.60}.")
        if isinstance(value, str) and len(value) > _MOST_TEXT:
            raise InvalidParameter(f"{name} is too long.")
    fields = {name: message.get(name) for name in action.fields}
    check_parameters(message["do"], fields, {name: (None, *rules) for name, rules in action.fields.items()})
    return action, fields


def ask(session: Session, message: dict[str, Any], arrays: Arrays | None = None) -> Iterator[Frame]:
    """Answer a message by frames; the last is the result. Errors are raised."""
    action, fields = check_message(message)
    return action.answer(session, fields, arrays or {})


# ---- what answers have in common -----------------------------------------------------------------------------------


def state_fields(session: Session) -> dict[str, Any]:
    """Return the state as the page sees it, without arrays."""
    history, state = session.history, session.state
    selection = state.selection
    return {
        "version": session.version,
        "step": history.position,
        "steps": len(history.steps) - 1,
        "undo": history.position > 0,
        "redo": history.position < len(history.steps) - 1,
        "attempts": session.attempts,
        "answer": None if state.answer is None else state.answer.plain(),
        "answers": [one.brief() for one in session.answers()],
        "selection": None
        if selection is None
        else {"size": selection.size, "origin": selection.origin, "clusters": list(state.marked)},
        "filter": state.filter.plain(),
        "shown": int(session.shown().sum()),
    }


def _row_arrays(session: Session, state: State, names: tuple[str, ...] = ("labels", "selection", "shown")) -> Arrays:
    """Return what there is one entry of for each drawn row."""
    drawn, n = session.source.drawn, len(session.source)
    every = slice(None) if drawn is None else drawn
    out: dict[str, NDArray[Any]] = {}
    if "labels" in names and state.answer is not None:
        out["labels"] = wire_labels(state.answer.labels[every])
    if "selection" in names:
        mask = np.zeros(n, dtype=bool) if state.selection is None else state.selection.mask
        out["selection"] = packed(mask[every])
    if "shown" in names:
        out["shown"] = packed(session.shown()[every])
    return out


def _changed(session: Session, before: State, **fields: Any) -> Frame:
    """Return a result with the state and the arrays that differ from those before."""
    state = session.state
    names = []
    if state.answer is not before.answer and (
        before.answer is None or state.answer is None or state.answer.labels is not before.answer.labels
    ):
        names.append("labels")
    if state.selection is not before.selection:
        names.append("selection")
    if names[:1] == ["labels"] or state.filter != before.filter:
        names.append("shown")
    return Frame("result", {**fields, "state": state_fields(session)}, _row_arrays(session, state, tuple(names)), True)


def _step(call: Callable[[Session, dict[str, Any], Arrays], Any]) -> Callable[..., Iterator[Frame]]:
    """Return an answer of an action that makes one step."""

    def answer(session: Session, fields: dict[str, Any], arrays: Arrays) -> Iterator[Frame]:
        before = session.state
        call(session, fields, arrays)
        yield _changed(session, before)

    return answer


def _single(name: str, call: Callable[..., Any], *, whole: bool = False) -> Callable[..., Iterator[Frame]]:
    """Return an answer of an action that changes nothing: a mapping of that name, perhaps with arrays."""

    def answer(session: Session, fields: dict[str, Any], arrays: Arrays) -> Iterator[Frame]:
        arguments = {key: value for key, value in fields.items() if value is not None}
        found = call(session, **arguments, **({"arrays": arrays} if whole else {}))
        facts, own = found if isinstance(found, tuple) else (found, {})
        yield Frame("result", {name: facts} if name else facts, own, True)

    return answer


def _set(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _ints(values: Any, name: str) -> list[int]:
    if not isinstance(values, list) or not all(type(one) is int and abs(one) < 2**53 for one in values):
        raise InvalidParameter(f"{name} must be whole numbers, got {values!r:.60}.")
    return values


# ---- actions -------------------------------------------------------------------------------------------------------


def _open(session: Session, fields: dict[str, Any], arrays: Arrays) -> Iterator[Frame]:
    source = session.source
    yield Frame("part", {"table": source.facts()})
    drawn = source.drawn
    points = source.points if drawn is None else source.points[drawn]
    columns = np.ascontiguousarray(points.T, dtype=np.float32)
    yield Frame(
        "part", {}, {"points": columns} if drawn is None else {"points": columns, "rows": drawn.astype(np.int32)}
    )
    n, d = source.points.shape
    facts = {
        "methods": methods.offered(n, d, source.mixed is not None),
        "views": list(views.KINDS),
        "relations": morph.relations(session),
        "exports": exports.offered(session),
        "state": state_fields(session),
    }
    yield Frame("result", facts, _row_arrays(session, session.state), True)


def _state(session: Session, fields: dict[str, Any], arrays: Arrays) -> Iterator[Frame]:
    facts: dict[str, Any] = {"state": state_fields(session), "exports": exports.offered(session)}
    facts["folder"] = None if session.out is None else str(session.out)
    yield Frame("result", facts, _row_arrays(session, session.state), True)


def _fit(session: Session, fields: dict[str, Any], arrays: Arrays) -> Iterator[Frame]:
    before, commit = session.state, fields["commit"] is not False
    found = session.fitting(
        fields["method"], fields["parameters"] or {}, preview=fields["preview"] is not False, commit=commit
    )
    for kind, answer in found:
        if kind == "result" and commit:
            yield _changed(session, before, answer=answer.plain())
        else:
            yield _labels_of(session, kind, answer)


def _cut(session: Session, fields: dict[str, Any], arrays: Arrays) -> Iterator[Frame]:
    before, commit = session.state, fields.pop("commit") is not False
    answer = session.cut(commit=commit, **_set(fields))
    yield _changed(session, before, answer=answer.plain()) if commit else _labels_of(session, "result", answer)


def _labels_of(session: Session, kind: str, answer: Any) -> Frame:
    """Return labels that are not part of the state."""
    every = slice(None) if session.source.drawn is None else session.source.drawn
    fields = {"answer": answer.plain()} | ({"state": state_fields(session)} if kind == "result" else {})
    return Frame(kind, fields, {"labels": wire_labels(answer.labels[every])}, kind == "result")


def _select(session: Session, fields: dict[str, Any], arrays: Arrays) -> None:
    values = _set(fields)
    origin, mode = values.get("origin", "")[:200], values.get("mode", "replace")
    drawn, n = session.source.drawn, len(session.source)
    if "mask" in arrays:
        found = unpacked(arrays["mask"], n if drawn is None else len(drawn))
        if drawn is not None:
            whole = np.zeros(n, dtype=bool)
            whole[drawn[found]] = True
            found = whole
        session.select(mask=found, mode=mode, origin=origin or "selected in the view")
    elif "cells" in values:
        session.select(
            mask=views.rows_of_cells(session, values["cells"]), mode=mode, origin=origin or "cells of a table"
        )
    elif "differ" in values:
        session.select(
            mask=views.rows_that_differ(session, values["differ"]), mode=mode, origin=origin or "rows that differ"
        )
    else:
        chosen = {name: values[name] for name in ("rows", "clusters", "where") if name in values}
        for name in ("rows", "clusters"):
            if name in chosen:
                _ints(chosen[name], name)
        session.select(**chosen, mode=mode, origin=origin)


def _split(session: Session, fields: dict[str, Any], arrays: Arrays) -> None:
    session.split(fields["cluster"], fields["into"] or 2, group=fields["group"])


def _filter(session: Session, fields: dict[str, Any], arrays: Arrays) -> None:
    values = _set(fields)
    session.filter(
        where=values.get("where", ()), hide=_ints(values.get("hide", []), "hide"), noise=values.get("noise", True)
    )


def _refit(session: Session, fields: dict[str, Any], arrays: Arrays) -> Iterator[Frame]:
    before = session.state
    values = _set(fields)
    found = session.refit(**recommending.options(values), apply=values.get("apply", "auto"))
    yield _changed(session, before, refit=found)


def _export(session: Session, **values: Any) -> Any:
    return exports.export(session, ask, **values)


def _log(session: Session) -> dict[str, Any]:
    return {"log": session.log(), "attempts": session.attempts, "script": session.script()}


def _needed(fields: dict[str, Any], *names: str) -> list[Any]:
    for name in names:
        if fields[name] is None:
            raise InvalidParameter(f"{name} is missing.")
    return [fields[name] for name in names]


_REFIT: Fields = {"methods": (_LIST,), "k": (_LIST,), "budget": (Number(0, 3600, strict=True),)}
_SETTING: Fields = {"method": (_TEXT,), "parameters": (_MAPPING,)}

ACTIONS: dict[str, Action] = {
    "open": Action(_open, {}, True),
    "state": Action(_state, {}, True),
    "fit": Action(_fit, {**_SETTING, "preview": (Flag(),), "commit": (Flag(),)}),
    "cut": Action(
        _cut,
        {
            "eps": (Number(0, strict=True),),
            "min_samples": (_WHOLE,),
            "min_cluster_size": (_WHOLE,),
            "commit": (Flag(),),
        },
    ),
    "curve": Action(_single("curve", curves.curve), {**_SETTING, "parameter": (_TEXT,)}),
    "recommend": Action(_single("", recommending.begin), _REFIT, True),
    "recommendation": Action(_single("", recommending.status), {}, True),
    "show": Action(_step(lambda s, f, _: s.show(*_needed(f, "answer"))), {"answer": (_TEXT,)}, True),
    "select": Action(
        _step(_select),
        {
            "rows": (_LIST,),
            "clusters": (_LIST,),
            "where": (_LIST,),
            "cells": (_MAPPING,),
            "differ": (_MAPPING,),
            "none": (Flag(),),
            "mode": (_TEXT,),
            "origin": (_TEXT,),
        },
        True,
    ),
    "refit": Action(_refit, {**_REFIT, "apply": (Choice(("auto",)), Flag())}),
    "merge": Action(
        _step(lambda s, f, _: s.merge(_ints(f["clusters"], "clusters"), f["name"])),
        {"clusters": (_LIST,), "name": (_TEXT,)},
        True,
    ),
    "split": Action(_step(_split), {"cluster": (_WHOLE,), "into": (_WHOLE,), "group": GROUP}),
    "rename": Action(
        _step(lambda s, f, _: s.rename(*_needed(f, "cluster", "name"))), {"cluster": (_WHOLE,), "name": (_TEXT,)}, True
    ),
    "move": Action(_step(lambda s, f, _: s.move(*_needed(f, "group", "to"))), {"group": GROUP, "to": (_WHOLE,)}, True),
    "undo": Action(_step(lambda s, f, _: s.undo(f["steps"] or 1)), {"steps": (Number(1, whole=True),)}, True),
    "redo": Action(_step(lambda s, f, _: s.redo(f["steps"] or 1)), {"steps": (Number(1, whole=True),)}, True),
    "go": Action(_step(lambda s, f, _: s.go(*_needed(f, "step"))), {"step": (_WHOLE,)}, True),
    "filter": Action(_step(_filter), {"where": (_LIST,), "hide": (_LIST,), "noise": (Flag(),)}, True),
    "compare_groups": Action(
        _single("groups", groups.compare_groups), {"a": GROUP, "b": GROUP, "depth": (Number(0, 4, whole=True),)}
    ),
    "explain_row": Action(_single("row", row.explain_row), {"row": (_WHOLE,)}, True),
    "find_row": Action(_single("rows", row.find_row), {"id": (_TEXT,)}, True),
    "view": Action(
        _single("view", views.view),
        {
            "kind": (Choice(views.KINDS),),
            "x": (_WHOLE, _TEXT),
            "y": (_WHOLE, _TEXT),
            "frames": (Number(2, 600, whole=True),),
        },
    ),
    "contingency": Action(_single("contingency", views.contingency), {"a": (_TEXT,), "b": (_TEXT,)}),
    "density2d": Action(_single("", views.density2d, whole=True), {"box": (_LIST,), "bins": (_LIST,)}, True),
    "stability": Action(_single("stability", groups.stability), {}),
    "morph": Action(_single("morph", morph.morph), {"relation": (_TEXT,), "at": (Number(0, 1),)}),
    "export": Action(_single("file", _export), {"kind": (_TEXT,), "to": (Choice(("download", "folder")),)}),
    "log": Action(_single("", _log), {}, True),
}
