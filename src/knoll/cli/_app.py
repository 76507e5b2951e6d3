"""The table of commands. Each has a file of its own, loaded when the command is called and not before."""

from __future__ import annotations

import difflib
import importlib

import click

import knoll

# Command → the line that `knoll --help` shows, the first of the command's own help.
COMMANDS = {
    "compare": "Find out which clusters your table has, by several methods.",
    "datasets": "List the data sets, or export one as CSV.",
    "demo": "Run the ten reference algorithms on the paper's data.",
    "explore": "Find, question and keep clusters in an interactive page.",
    "fit": "Fit one method to your data and keep the model.",
    "info": "Show what was built and what it runs on.",
    "inspect": "Show what a model file contains, and check that it is whole.",
    "predict": "Label new data by a model, in bounded memory.",
    "relate": "Certify the relations between the algorithms on your data.",
    "tour": "Make the paper's figures, tables and relations anew, as one page.",
    "tree": "Show the clusters of your table at every density, as one page.",
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and loads them by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load the command of that name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"knoll.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command by the first argument; an unknown name gets a suggestion."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise click.UsageError(f"there is no command '{args[0]}'.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without loading any."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(knoll.__version__, prog_name="knoll", message="%(prog)s %(version)s")
@click.pass_context
def app(ctx: click.Context) -> None:
    """Clustering as one family, exact and fast."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
