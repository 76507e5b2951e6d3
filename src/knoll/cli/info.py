"""``knoll info``: what to send with a report."""

from __future__ import annotations

import click


@click.command("info")
def command() -> None:
    """Show what was built and what it runs on.

    \b
    Example:
      knoll info
    """
    import knoll

    knoll.show_build()
