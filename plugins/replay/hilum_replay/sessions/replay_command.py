"""``hilum replay``: replays a session, with or without changes, and shows where it differs."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp

import hilum
import msgspec
import trio
from hilum import HilumError, UsageError, remove_folder
from hilum.command import Parser, check_text, escape_terminal, say, say_json
from hilum.errors import E_BAD_ARGS
from hilum.events import AnyEvent, ModelAnswered, ModelUsed
from hilum.store import find_session, storage_plugins

from hilum_replay.sessions.comparison import describe
from hilum_replay.sessions.exporting import make_recording, make_repeatable, open_contents
from hilum_replay.sessions.player import Changes, find_recorded_plugins, read_events
from hilum_replay.sessions.recording import SESSION_FILE, Recording, load_recording
from hilum_replay.sessions.session_test import ReplayOutcome, run_recording

EXIT_SAME = 0
EXIT_DIFFERENT = 1
_SHOW_EVENTS = "`hilum sessions show ID --events` shows the numbers of the events."
EPILOG = """\
SESSION is the id of a session, the beginning of its id, or the folder of a recording. The replay works
in a copy of the files; your files stay unchanged. The exit code is 1 if the behaviour or the files
differ, and 0 otherwise.

  hilum replay 20260131-1504                                         as it was
  hilum replay 20260131-1504 --rule "deny run_terminal_cmd(rm *)"    with another rule
  hilum replay 20260131-1504 --at 120 --model openai/gpt-5           with another model after event 120
  hilum replay 20260131-1504 --plugin my_plugin.py                   with a plugin
"""


def main(argv: list[str]) -> int:
    """Replay a session, and show where and why it differs from the recording.

    Returns:
        The exit code: 1 if the behaviour or the files differ, otherwise 0.
    """
    check_text(argv)
    options = make_parser().parse_args(argv)
    return trio.run(_replay, options)


def make_parser() -> Parser:
    """Declare the options."""
    parser = Parser(
        "hilum replay",
        "Replay a session in a copy of its files, and show where it differs from the recording.",
        EPILOG,
    )
    add = parser.add_argument
    add("session", metavar="SESSION", help="id of a session, `last`, or folder of a recording")
    add("--at", type=int, default=0, metavar="SEQ", help="change nothing up to this event")
    add("--model", default="", metavar="NAME", help="model to use in place of the recorded one")
    add(
        "--plugin",
        action="append",
        default=[],
        metavar="NAME",
        help="a further plugin: a name or a file",
    )
    add(
        "--no-plugin",
        action="append",
        default=[],
        metavar="NAME",
        help="a plugin to leave out",
    )
    add(
        "--rule",
        action="append",
        default=[],
        metavar="RULE",
        help="a permission rule that begins with allow, ask or deny",
    )
    add(
        "--without",
        action="append",
        default=[],
        metavar="PATTERN",
        help="files of the workspace to leave out, such as '*.log'",
    )
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="another setting")
    add("--keep", action="store_true", help="keep the folder of the replay, and print its path")
    add("--json", action="store_true", help="print the differences as JSON")
    return parser


def read_changes(options: Namespace) -> Changes:
    """Return what the options change.

    Raises:
        UsageError: An option is invalid.
    """
    for rule in options.rule:
        kind, _, text = rule.partition(" ")
        if kind not in ("allow", "ask", "deny") or not text.strip():
            raise UsageError(
                f"{rule!r} is not a permission rule.",
                code=E_BAD_ARGS,
                hint='For example: --rule "deny run_terminal_cmd(rm *)".',
            )
    if options.at < 0:
        raise UsageError("--at must not be negative.", code=E_BAD_ARGS, hint=_SHOW_EVENTS)
    changes = Changes(
        at=options.at,
        model=options.model,
        plugins=tuple(options.plugin),
        without=tuple(options.no_plugin),
        rules=tuple(options.rule),
        settings=dict(hilum.parse_pair(pair) for pair in options.set),
    )
    if changes.at and not changes.has_changes:
        raise UsageError(
            "--at needs a change that begins there.",
            code=E_BAD_ARGS,
            hint="Add --model, --plugin, --no-plugin, --rule or --set.",
        )
    return changes


async def _replay(options: Namespace) -> int:
    changes = read_changes(options)
    recording = await _find_recording(options.session, options.without)
    last = recording.events[-1].seq
    if changes.at >= last:
        raise UsageError(
            f"--at {changes.at} is not before the last event of the session, {last}.",
            code=E_BAD_ARGS,
            hint=_SHOW_EVENTS,
        )
    # Otherwise, a command with a random result would look like an effect of the change.
    given = find_recorded_plugins(recording.events, changes.plugins)
    recording, _ = await make_repeatable(recording, given)
    folder = Path(await trio.to_thread.run_sync(mkdtemp, None, "hilum-replay-"))
    live_events: list[AnyEvent] = []
    try:
        outcome = await run_recording(
            recording, folder / "workspace", changes=changes, live_events=live_events
        )
    except HilumError:
        if options.keep:
            say(_describe_folder(folder), to=sys.stderr)
        raise
    finally:
        if not options.keep:
            await trio.to_thread.run_sync(remove_folder, folder)
        if changes.model:
            # A replay that fails has cost just as much.
            await bill_requests(live_events, options.session)
    _show(options, recording, outcome, folder)
    return EXIT_DIFFERENT if outcome.comparison.failures else EXIT_SAME


async def _find_recording(session: str, without: Sequence[str] = ()) -> Recording:
    """Return the recording in a folder, or of a session in the user's store.

    Raises:
        UsageError: There is no such recording, or it cannot be replayed.
    """
    folder = Path(session)
    if await trio.Path(folder / SESSION_FILE).exists():
        if without:
            raise UsageError(
                "A recording contains only the files that it was exported with.",
                code=E_BAD_ARGS,
                hint="Leave out --without, or export the session again with it.",
            )
        return await trio.to_thread.run_sync(load_recording, folder)
    async with hilum.open_kernel(storage_plugins()) as kernel:
        info = await kernel.store.info(await find_session(kernel.store, session, "."))
        events = await read_events(kernel.store, info.id)
    return await trio.to_thread.run_sync(
        lambda: make_recording(
            events, open_contents(), title=info.title, session=info.id, without=without
        )
    )


async def bill_requests(events: Sequence[AnyEvent], session: str) -> None:
    """Write what a live model cost to a session of the user's store, so that bills contain it.

    Args:
        events: The events of a replay since the live model answered.
        session: The name of the replayed session.
    """
    used = [
        ModelUsed(
            model=event.message.model if isinstance(event, ModelAnswered) else event.model,
            purpose="replay",
            usage=event.usage,
            seconds=event.seconds,
            plugin="replay",
            price=event.price,
        )
        for event in events
        if isinstance(event, ModelAnswered | ModelUsed)
    ]
    if not used:
        return
    async with (
        # Without a title, the session would be called after its first prompt, which it lacks.
        hilum.open_kernel(storage_plugins()) as kernel,
        kernel.open_session(kind="headless") as bill,
    ):
        for event in used:
            bill.emit(event)
        await kernel.store.rename(bill.id, f"Replay of {session}"[:200])


def _show(options: Namespace, recording: Recording, outcome: ReplayOutcome, folder: Path) -> None:
    comparison = outcome.comparison
    if options.json:
        shown = {
            "identical": comparison.identical,
            "differs": bool(comparison.failures),
            "events": {"recorded": comparison.events[0], "replayed": comparison.events[1]},
            "from_log": outcome.replayed.from_log,
            "left_out": recording.header.left_out,
            "differences": [msgspec.to_builtins(each) for each in comparison.differences],
        }
        if options.keep:
            shown["folder"] = str(folder / "workspace")
        say_json(shown)
    else:
        lines = [describe(comparison)]
        for key, why in outcome.replayed.from_log.items():
            lines.append(f"Answered from the log: {key}: {why}.")
        for path, why in recording.header.left_out.items():
            lines.append(f"Not in the copy: {path}: {why}.")
        say(escape_terminal("\n".join(lines)))
    if options.keep and not options.json:
        say(_describe_folder(folder))


def _describe_folder(folder: Path) -> str:
    return f"The files of the replay are in {folder / 'workspace'}"
