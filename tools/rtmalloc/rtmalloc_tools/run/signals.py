"""Signals to a command that waits for a program."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from types import FrameType

TAKEN = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


class PassedOn:
    """Inside, what would end the command ends the program, which is waited for: as if it ran in the command's place.
    SIGINT comes from the terminal, which sends it to the program, too. `got`: the last one, or 0."""

    def __init__(self) -> None:
        self.child = self.got = 0
        self.before: dict[int, object] = {}

    def __enter__(self) -> PassedOn:
        for number in TAKEN:
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup
                self.before[number] = signal.signal(number, self.take)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler or signal.SIG_DFL)  # type: ignore[arg-type]

    def to(self, child: int) -> None:
        """The program has started; what came before that is sent now."""
        self.child = child
        if self.got:
            self.send(self.got)

    def take(self, number: int, _: FrameType | None) -> None:
        self.got = number
        if self.child:
            self.send(number)

    def send(self, number: int) -> None:
        if number != signal.SIGINT:
            with suppress(ProcessLookupError):
                os.kill(self.child, number)
