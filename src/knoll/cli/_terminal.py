"""Text for a terminal: whatever a table, its name or an id contains, no control character of it is printed as such.

A header may contain escape sequences that clear the screen or set its title, and marks that reverse the direction of
text. Every line that the commands print passes through `visible`, which writes such characters as Python's `repr` does.
"""

from __future__ import annotations

import codecs
import io
import json
import re
import sys
from typing import IO, Any


def visible(text: str, keep: str = "") -> str:
    r"""Write what cannot be printed as an escape such as \x1b; the characters in `keep` stay.

    Not printable are control characters, lone surrogates, spaces other than the usual one, and the marks of format
    among which those of text direction are (`str.isprintable`).
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def echo(line: str = "", *, err: bool = False) -> None:
    """Print one line; a character that the stream's encoding lacks is printed as an escape too."""
    import click

    stream = sys.stderr if err else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    click.echo(visible(line).encode(encoding, "backslashreplace").decode(encoding), err=err)


def on_terminal(*streams: Any) -> bool:
    """Whether all these streams are terminals; a closed one, which Python has None for, is not."""
    return all(stream is not None and stream.isatty() for stream in streams)


def json_text(value: Any, **options: Any) -> str:
    """Return JSON with an indent of one, its letters readable and all that cannot be printed as escapes."""
    text = json.dumps(value, indent=1, ensure_ascii=False, **options)
    return re.sub(r"[^ -~\n]", lambda found: _escaped(found[0]), text)


def _escaped(letter: str) -> str:
    if letter.isprintable():
        return letter
    return f"\\u{ord(letter):04x}" if letter <= "\uffff" else json.dumps(letter)[1:-1]


class VisibleBytes(io.RawIOBase):
    """Text on its way to a terminal as bytes of UTF-8: what cannot be printed becomes visible, lines stay lines."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="backslashreplace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        """Write some bytes; a letter that they cut in two waits for the next."""
        self._file.write(visible(self._decoder.decode(bytes(data)), keep="\n").encode())
        return len(data)
