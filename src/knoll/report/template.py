"""Rendering of a page from the files in templates/."""

from __future__ import annotations

import json
import platform
from importlib import resources
from typing import Any

from knoll import __version__
from knoll._system import available_threads


def read(name: str) -> str:
    """Return the text of a file in templates/."""
    return (resources.files("knoll.report") / "templates" / name).read_text(encoding="utf-8")


def render(template: str, /, **values: Any) -> str:
    """Render a template; text is escaped, and every page knows the version and the machine."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, loader=FunctionLoader(read)
    )
    machine = f"{available_threads()} CPUs, {platform.machine()}"
    return environment.get_template(template).render(version=__version__, machine=machine, **values)


def embedded(value: Any) -> str:
    """Return JSON that can be embedded in a page: without "<"."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
