"""A face in fifty lines, which prints what a session does and approves its edits."""

import sys

import hilum
import trio
from hilum_view import (
    Answer,
    AnyEntry,
    Approval,
    Card,
    Changes,
    Notice,
    Outcome,
    SessionView,
    format_tokens,
)


def line_of(entry: AnyEntry) -> str:
    """Return the line to print for an entry; empty until the entry is complete."""
    if isinstance(entry, Answer) and entry.state == "done":
        return str(entry.text).strip()
    if isinstance(entry, Card) and entry.ended:
        return f"  {entry.title}: {entry.reason or entry.summary}"
    if isinstance(entry, Notice) and entry.level == "warning":
        return f"! {entry.text}"
    if isinstance(entry, Outcome):
        return f"[{entry.text}]"
    return ""


class Face:
    def __init__(self, session: hilum.Session) -> None:
        self.session = session
        self.view = SessionView()
        self.events = session.events(deltas=True)
        self.answered: set[str] = set()

    async def work(self, task: str) -> None:
        run = await self.session.prompt(task)
        async for item in self.events:
            changes = self.view.apply(item)
            self.draw(changes)
            if "waiting" in changes.parts:
                self.answer()
            if self.view.outcome and self.view.outcome.run == run.id:
                break

    def draw(self, changes: Changes) -> None:
        for line in filter(None, map(line_of, changes.entries)):
            print(line.replace("\x1b", "\\x1b"))  # no escape of a model reaches the terminal

    def answer(self) -> None:
        for one in self.view.waiting:
            if isinstance(one, Approval) and one.id not in self.answered:
                self.answered.add(one.id)
                self.session.answer(one.id, one.risk == "write", reason="Only edits are allowed.")


async def main(tasks: list[str]) -> None:
    async with hilum.open_standard_session(".") as session:
        face = Face(session)
        for task in tasks:
            await face.work(task)
        used = format_tokens(face.view.totals.usage)
        print(f"{face.view.totals.runs} runs, {len(face.view.cards)} calls, {used}")


trio.run(main, sys.argv[1:])
