"""A mistyped subcommand is answered with the nearest one."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

from rtmalloc_tools.mistakes import unknown_name


class SuggestingGroup(TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise unknown_name("command", args[0], self.list_commands(ctx))
        return super().resolve_command(ctx, args)
