"""Recognises secrets by the names of variables and settings, and file copies by their names.

All of hilum's plugins use this list.
"""

from __future__ import annotations

import re

_WORDS = r"AUTH|COOKIES?|CREDS|DSN|JWT|KEYS?|PASS|PASSPHRASE|PAT|PRIVATE|\w+_PWD"
_ENDS = r"APIKEY|CREDENTIALS?|PASSWD|PASSWORDS?|SECRETS?|TOKENS?|(?:SECRET|ACCESS|PRIVATE)KEY"
_NAME = re.compile(rf"(?:^|_)(?:{_WORDS}|\w*(?:{_ENDS}))\d*(?:_|$)")


def is_secret_name(name: str) -> bool:
    """Return whether a name looks like that of a secret: ``OPENAI_API_KEY``, ``db-password``."""
    return _NAME.search(name.upper().replace("-", "_")) is not None


MAX_COPIES = 3
"""Maximum number of nested copies (copies of copies) to recognise."""
_SWAP = re.compile(r"\.sw[a-p]$", re.IGNORECASE)
_BACKUP_ENDS = re.compile(
    r"(~|\.~\d+~|\.(bak|backup|old|orig|save|saved|rej|tmp|sw[a-p])\d*|_bak)$", re.IGNORECASE
)


def original_names(name: str) -> tuple[str, ...]:
    """Yield a file's name and the names of which it may be a copy, such as ``.env`` for ``.env~``.

    Editors and tools leave such copies.

    Args:
        name: The last part of a path.
    """
    found = [name]
    for _ in range(MAX_COPIES):
        before = _remove_marks(found[-1])
        if not before or before == found[-1]:
            break
        is_swap = _SWAP.search(found[-1]) is not None
        found.append(before)
        if is_swap and before.startswith("."):  # Vim prefixes the name with a dot
            found.append(before[1:])
    return tuple(dict.fromkeys(filter(None, found)))


def _remove_marks(name: str) -> str:
    """Return a file name without the prefix or suffix that marks one copy."""
    if len(name) > 2 and name.startswith("#") and name.endswith("#"):  # an Emacs auto-save file
        return name[1:-1]
    if len(name) > 2 and name.startswith(".#"):  # an Emacs lock file
        return name[2:]
    return _BACKUP_ENDS.sub("", name)
