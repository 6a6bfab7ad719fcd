"""Formats reports on commands for the model: how they ended, their output, and the next step."""

from __future__ import annotations

from typing import Any, NamedTuple

from hilum import Output, errors

from hilum_shell.output import OutputBuffer, cut_middle
from hilum_shell.service import Service, describe_exit

LEFT = (
    "[It left processes running in the background, which were ended with it. To keep a command"
    " running, start only that command, with background=true.]"
)


def describe_kept(service: Service, *, beyond: bool) -> str:
    """Return a note that a command's remaining processes continue as a service.

    Args:
        service: The service.
        beyond: Whether the service continues after the end of the run.
    """
    name = service.id
    return (
        f"[The processes that it left running continue as {name}: read_service({name!r}) returns"
        f" their output, stop_service ends them. {describe_lifetime(beyond=beyond)}]"
    )


def describe_lifetime(*, beyond: bool) -> str:
    """Describe when a service ends, so that the agent informs the user correctly."""
    if beyond:
        return "It continues when your work is done, until the user ends hilum."
    return "It ends with this session: say so if you give the user its address."


def format_finished(
    service: Service, text: str, data: dict[str, Any], is_answer: bool, note: str = ""
) -> Output:
    """Return the tool output for a command that ended in the foreground.

    Args:
        service: The command.
        text: The command's output, as in ``ShownOutput.text``.
        data: Plain data for faces; this function adds the exit code and the duration.
        is_answer: Whether the exit code is a result, as with ``grep``, and not a failure.
        note: A note about the processes that the command left running.
    """
    assert service.code is not None
    data |= {"exit_code": service.code, "seconds": round(service.seconds, 3)}
    exit_text = describe_exit(service.code)
    first = exit_text[0].upper() + exit_text[1:]
    lines = [f"{first} after {service.seconds:.1f} s", text]
    if not note and service.left:
        note = LEFT
    if note:
        lines.append(note)
    is_success = service.code == 0 or is_answer
    code = "" if is_success else errors.E_CMD_FAIL
    return Output("\n".join(lines), data=data, code=code)


def format_late(limit: float, max_limit: float, text: str) -> str:
    """Return the text for a command that was ended at its time limit.

    Args:
        limit: The time limit in seconds.
        max_limit: The maximum time limit in seconds.
        text: The command's output so far.
    """
    return (
        f"The command took longer than {limit:g} s; it was ended with all its child processes."
        f" Set a longer timeout (at most {max_limit:g} s), or do less at once. A server or a"
        " watcher never ends: start it with background=true. A command that asks for input gets"
        f" none.\nIts output so far:\n{text}"
    )


def format_moved(
    service: Service, seconds: float, rest: float, text: str, *, by_user: bool = False
) -> str:
    """Return the text for a command that continues in the background.

    Args:
        service: The command.
        seconds: Seconds that hilum waited for the command.
        rest: Seconds until hilum ends the command.
        text: The command's output so far.
        by_user: Whether the user moved the command.
    """
    name = service.id
    reason = f"The command has not ended after {seconds:.0f} s."
    if by_user:
        reason = f"The user moved the command to the background after {seconds:.0f} s."
    return (
        f"{reason} It still runs, now in the background as {name}: do not start it"
        f" again. read_service({name!r}, timeout=…) waits for its end and"
        f" returns its output; stop_service ends it. It is ended after {rest:g} s more. It gets no"
        f" input.\nIts output so far:\n{text}"
    )


class ShownOutput(NamedTuple):
    """The output of a command, as shown to the model.

    Attributes:
        text: Standard output, then standard error, shortened if they are too long.
        left_out: Number of characters that were left out.
        characters: Number of characters in the whole output.
        lines: Number of lines in the whole output.
    """

    text: str
    left_out: int
    characters: int
    lines: int


def format_cut_notice(shown: ShownOutput, service: Service) -> str:
    """Return a notice about shortened output: its size, its location and how to read it.

    Args:
        shown: The output.
        service: The command; its id is empty if the output could not be kept.
    """
    lines = "1 line" if shown.lines == 1 else f"{shown.lines:,} lines"
    size = f"{shown.characters:,} characters in {lines}"
    if not service.id:
        advice = "Redirect it to a file to read all of it."
        return f"[The output was cut. In full it has {size}; the rest is not kept. {advice}]"
    start = service.spool.start
    if start:
        where = f"Its last {service.spool.end - start:,} bytes are kept as {service.id}"
    else:
        where = f"All of it is kept as {service.id}"
    return (
        f"[The output was cut. In full it has {size}. {where}: read_service({service.id!r},"
        f" offset={start}) reads it page by page, with wait_for='REGEX' it finds a line.]"
    )


def cut_streams(kept: dict[str, OutputBuffer], limit: int) -> ShownOutput:
    """Return both streams combined, shortened if they are too long.

    Standard error may use half of the limit, plus the part that standard output does not use.

    Args:
        kept: Head and tail of ``stdout`` and ``stderr``.
        limit: Maximum number of characters of both streams combined.
    """
    out = kept["stdout"].text()
    err = kept["stderr"].text()
    length = len(out.head) + len(out.tail)
    # Errors matter more than output, but must not displace all of it.
    stderr, lost = cut_middle(err, max(limit // 2, limit - length))
    stdout, more = cut_middle(out, limit - min(len(stderr), limit // 2))
    text = stdout.rstrip("\n")
    if stderr.strip():
        text = f"{text}\n[standard error]\n{stderr.rstrip()}".lstrip("\n")
    return ShownOutput(
        text or "[no output]",
        lost + more,
        out.characters + err.characters,
        out.lines + err.lines,
    )


def read_output(
    service: Service, agent: str, start: int, limit: int, *, paged: bool = False, said: str = ""
) -> Output:
    """Return a service's state and its output from an offset, and mark the output as read.

    Args:
        service: The service.
        agent: The agent that reads the output. A failure is reported to each agent once.
        start: Offset in bytes.
        limit: Maximum number of characters.
        paged: Whether to return one page; otherwise, all output is returned, shortened in the
            middle if too long.
        said: A text to put before the output.
    """
    spool = service.spool
    start = max(start, 0)
    begin = min(max(start, spool.start), spool.end)
    size = limit if paged else None
    data = spool.read(begin, size)
    end = begin + len(data)
    buffer = OutputBuffer(limit)
    buffer.add(data)
    text, left_out = cut_middle(buffer.text(), limit)
    lines = [f"{said}{service.title}: {service.describe()}."]
    if begin > start:
        lines.append(f"[bytes {start} to {begin} of its output are no longer kept]")
    if left_out:
        lines.append(
            f"[bytes {begin} to {end} of its output; offset={begin} reads them page by page]"
        )
    if service.state != "lost":
        missing = "[nothing new]" if spool.end else "[no output]"
        lines.append(text.rstrip("\n") or missing)
    if end < spool.end:
        lines.append(f"[there is more: offset={end}]")
    if service.left and not service.remains:
        lines.append(LEFT)
    # Reading an earlier page again must not move the cursor back.
    service.cursors[agent] = max(end, service.cursors.get(agent, 0))
    facts = {
        "service": service.id,
        "state": service.state,
        "exit_code": service.code,
        "offset": end,
        "left_out": left_out,
    }
    return Output("\n".join(lines), data=facts, code=_failure(service, agent))


def _failure(service: Service, agent: str) -> str:
    """Return the code of a service's failure, unless the agent has already received it."""
    if not service.ended.is_set():
        return ""
    service.informed.discard(agent)
    if agent in service.failure_reported:
        return ""
    service.failure_reported.add(agent)
    if service.late:
        return errors.E_TIMEOUT
    if service.state == "exited" and service.code:
        return errors.E_CMD_FAIL
    return ""
