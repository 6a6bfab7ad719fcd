"""What the model reads of a command: how it ended, what it printed, and what may be done next."""

from __future__ import annotations

from typing import Any

from hilum import Output, errors

from hilum_shell.output import Kept, cut
from hilum_shell.service import Service, ending

LEFT = (
    "[It left something running in the background, which was ended with it. To keep a command"
    " running, give that command alone, with background=true.]"
)


def kept(service: Service, *, beyond: bool) -> str:
    """Tell that what a command left running goes on as a service.

    Args:
        service: The service.
        beyond: Whether it goes on when the run has ended.
    """
    name = service.id
    return (
        f"[What it left running in the background goes on as {name}: read_service({name!r}) gives"
        f" what it prints, stop_service ends it. {lifetime(beyond=beyond)}]"
    )


def lifetime(*, beyond: bool) -> str:
    """Tell how long a service lives at most: what the agent tells the user must be true."""
    if beyond:
        return "It goes on when your work is done, until the user ends hilum."
    return "It ends with this session: tell the user so if you name its address."


def finished(
    service: Service, text: str, data: dict[str, Any], is_answer: bool, note: str = ""
) -> Output:
    """Tell of the end of a command in the foreground.

    Args:
        service: The command.
        text: Its output, as ``written`` gives it.
        data: Plain data for faces, to be completed.
        is_answer: Whether its exit code answers a question, as that of ``grep`` does, and is no
            failure.
        note: What became of what it left running.
    """
    assert service.code is not None
    data |= {"exit_code": service.code, "seconds": round(service.seconds, 3)}
    how = ending(service.code)
    text = f"{how[0].upper()}{how[1:]} after {service.seconds:.1f} s\n{text}"
    note = note or (LEFT if service.left else "")
    if note:
        text = f"{text}\n{note}"
    return Output(text, data=data, code="" if is_answer or not service.code else errors.E_CMD_FAIL)


def late(limit: float, most: float, text: str) -> str:
    """Tell that a command was ended because its time was over.

    Args:
        limit: Seconds it had.
        most: Seconds it may have.
        text: Its output so far.
    """
    return (
        f"The command took longer than {limit:g} s; it was ended, with everything it had started."
        f" Give it a longer timeout (at most {most:g} s), or let it do less at once. A server or a"
        " watcher never ends by itself: start it with background=true. A command that asks for"
        f" input cannot get any.\nIts output so far:\n{text}"
    )


def moved(service: Service, seconds: float, rest: float, text: str) -> str:
    """Tell that a command goes on in the background.

    Args:
        service: The command.
        seconds: How long it was waited for.
        rest: Seconds until it is ended.
        text: Its output so far.
    """
    name = service.id
    return (
        f"The command has not ended after {seconds:.0f} s. It still runs, now in the background as"
        f" {name}: do not start it again. read_service({name!r}, timeout=…) waits for its end and"
        f" gives what it prints; stop_service ends it, and so do {rest:g} s more. It gets no"
        f" input.\nIts output so far:\n{text}"
    )


def written(kept: dict[str, Kept], limit: int) -> tuple[str, int]:
    """Put both streams together.

    Standard error gets up to half the room, and what standard output leaves.

    Args:
        kept: Head and tail of ``stdout`` and ``stderr``.
        limit: Characters that both may take.

    Returns:
        The text, and how many characters were left out.
    """
    out = kept["stdout"].text()
    err = kept["stderr"].text()
    length = sum(len(part) for part in out[:2])
    stderr, lost = cut(err, max(limit // 2, limit - length))
    stdout, more = cut(out, limit - min(len(stderr), limit // 2))
    text = stdout.rstrip("\n")
    if stderr.strip():
        text = f"{text}\n[standard error]\n{stderr.rstrip()}".lstrip("\n")
    return text or "[no output]", lost + more


def read(
    service: Service, agent: str, start: int, limit: int, *, paged: bool = False, said: str = ""
) -> Output:
    """Return a service's state and its output from an offset on, and note that this agent has read
    it.

    Args:
        service: The service.
        agent: Who reads. A failure is told to each reader once.
        start: Offset in bytes.
        limit: Most characters.
        paged: Whether to give one page; otherwise all that is there, without its middle if it is
            too long.
        said: What to say first.
    """
    spool = service.spool
    start = max(start, 0)
    begin = min(max(start, spool.start), spool.end)
    data = spool.read(begin, limit if paged else None)
    end = begin + len(data)
    kept = Kept(limit)
    kept.add(data)
    text, left_out = cut(kept.text(), limit)
    lines = [f"{said}{service.title}: {service.describe()}."]
    if begin > start:
        lines.append(f"[bytes {start} to {begin} of its output are kept no longer]")
    if left_out:
        lines.append(
            f"[bytes {begin} to {end} of its output; offset={begin} gives them page by page]"
        )
    if service.state != "lost":
        lines.append(text.rstrip("\n") or ("[nothing new]" if spool.end else "[no output]"))
    if end < spool.end:
        lines.append(f"[there is more: offset={end}]")
    if service.left and not service.remains:
        lines.append(LEFT)
    service.cursors[agent] = max(end, service.cursors.get(agent, 0))
    state = {"service": service.id, "state": service.state, "exit_code": service.code}
    facts = {**state, "offset": end, "left_out": left_out}
    return Output("\n".join(lines), data=facts, code=_failure(service, agent))


def _failure(service: Service, agent: str) -> str:
    """Return the code of a service's failure, to an agent that did not get it before."""
    if not service.over.is_set():
        return ""
    service.knowing.discard(agent)
    if agent in service.told:
        return ""
    service.told.add(agent)
    if service.late:
        return errors.E_TIMEOUT
    if service.state == "exited" and service.code:
        return errors.E_CMD_FAIL
    return ""
