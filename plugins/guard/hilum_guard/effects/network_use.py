"""Find the hosts that a program contacts, and whether it uses the network."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import attrs

from hilum_guard.programs import options
from hilum_guard.programs.tables import read_table

_NETWORK = frozenset(
    """aria2c axel curl curlie dig drill finger ftp gcloud gsutil az aws fly flyctl http https
    httpie host lftp lynx mosh mutt nc ncat netcat nmap nslookup ping ping6 rclone rsh s3cmd scp
    sendmail sftp socat ssh ssh-copy-id telnet tftp traceroute w3m wget whois xh yt-dlp youtube-dl
    heroku vercel netlify kubectl helm gh glab hub doctl""".split()
)


class Row(NamedTuple):
    """The columns for a program: its sub-commands that use the network.

    Attributes:
        verbs: The sub-commands with which the program uses the network.
        syntax: The options that may precede a sub-command.
    """

    verbs: frozenset[str]
    syntax: options.Syntax


def _read_rows() -> dict[str, Row]:
    rows = {}
    for name, columns in read_table("network").items():
        before = {column: text for column, text in columns.items() if column != "verbs"}
        verbs = frozenset(columns["verbs"].split(", "))
        rows[name] = Row(verbs, options.make_syntax(**before))
    return rows


_ROWS = _read_rows()
_URL = re.compile(
    r"\b[a-z][a-z0-9+.-]*://(?:[^\s/?#@\"']*@)?(\[[0-9a-f:.]+\]|[^\s/:?#\"'@\\]+)", re.I
)
REMOTE = re.compile(r"(?:[\w.+-]+@)?([\w-]+(?:\.[\w-]+)+|\[[0-9a-fA-F:.]+\]):(?!//).*")
_HOST = re.compile(r"(?:[\w.+-]+@)?([\w-]+(?:\.[\w-]+)+|[0-9a-fA-F]*:[0-9a-fA-F:.]+)\.?")
# Programs whose operands may be host names without a URL.
_HOST_OPERAND = frozenset(
    """curl wget http https httpie xh ssh scp sftp ftp lftp telnet nc ncat netcat ping ping6 dig
    host nslookup drill traceroute mosh nmap whois lynx w3m aria2c axel tftp finger
    ssh-copy-id""".split()
)


@attrs.frozen
class Contact:
    """A program's network use.

    Attributes:
        hosts: The hosts named in the program's arguments, in lower case.
        network: Whether the program certainly uses the network.
    """

    hosts: tuple[str, ...] = ()
    network: bool = False


def hosts_of(text: str) -> list[str]:
    """Return the hosts of all URLs in text, in lower case."""
    return [host.strip("[]").lower().rstrip(".") for host in _URL.findall(text)]


def read_contact(name: str, words: Sequence[str]) -> Contact:
    """Return a program's network use, as far as its arguments show it.

    Args:
        name: The program's name in lower case.
        words: The words after it.
    """
    uses = name in _NETWORK or _uses_network_verb(name, words)
    hosts: list[str] = []
    for word in words:
        hosts += hosts_of(word)
        if uses:
            hosts += _find_named_host(name, word)
    return Contact(tuple(hosts), uses)


def _find_named_host(name: str, word: str) -> list[str]:
    """Return the host that a network program's argument names without a URL."""
    remote = REMOTE.fullmatch(word)
    if remote:
        return [remote[1].strip("[]").lower()]
    if name not in _HOST_OPERAND or word.startswith(("-", "/", ".")):
        return []
    plain = _HOST.fullmatch(re.sub(r"^([^:]*):\d+$", r"\1", re.split(r"[/?#]", word)[0]))
    return [plain[1].lower()] if plain else []


def _uses_network_verb(name: str, words: Sequence[str]) -> bool:
    row = _ROWS.get(name)
    return row is not None and not row.verbs.isdisjoint(_find_verbs(name, words, row.syntax))


def _find_verbs(name: str, words: Sequence[str], syntax: options.Syntax) -> Iterator[str]:
    """Yield the words that may be a program's sub-command.

    The sub-command is the first operand, or the second if an unknown option before it may take a
    value.
    """
    if name == "pacman":  # pacman's sub-commands are options, such as `-Syu`
        yield from words
        return
    parsed = options.parse(words, syntax)
    operands = [word for word in parsed.operands if not word.startswith("+")]
    if not operands:
        return
    verb = operands[0]
    at = words.index(verb)
    before = options.parse(words[:at], syntax)
    yield " ".join(operands[:2])
    yield verb
    if before.unknown and "=" not in words[at - 1]:
        yield from operands[1:2]
