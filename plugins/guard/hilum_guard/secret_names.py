"""What the name of a variable or of a setting says: whether its value is a secret.

The one list for the whole house.
"""

from __future__ import annotations

import re

_WORDS = r"AUTH|COOKIES?|CREDS|DSN|JWT|KEYS?|PASS|PASSPHRASE|PAT|PRIVATE|\w+_PWD"
_ENDS = r"APIKEY|CREDENTIALS?|PASSWD|PASSWORDS?|SECRETS?|TOKENS?|(?:SECRET|ACCESS|PRIVATE)KEY"
_NAME = re.compile(rf"(?:^|_)(?:{_WORDS}|\w*(?:{_ENDS}))\d*(?:_|$)")


def is_secret_name(name: str) -> bool:
    """Return whether a name speaks of a secret: ``OPENAI_API_KEY``, ``db-password``,
    ``GITHUB_TOKEN``.
    """
    return _NAME.search(name.upper().replace("-", "_")) is not None


_BACKUP_ENDS = re.compile(
    r"(~|\.~\d+~|\.(bak|backup|old|orig|save|saved|rej|tmp|sw[a-p])\d*|_bak)$", re.IGNORECASE
)


def original_names(name: str) -> tuple[str, ...]:
    """Return the name of a file, and the names of which it can be a copy that an editor or a tool
    left: ``.env`` for ``.env~``.

    Args:
        name: The last part of a path.
    """
    found = [name]
    for _ in range(3):
        before = found[-1]
        if before.startswith("#") and before.endswith("#") and len(before) > 2:
            found.append(before[1:-1])
        elif before.startswith(".#") and len(before) > 2:
            found.append(before[2:])
        elif (cut := _BACKUP_ENDS.sub("", before)) and cut != before:
            found.append(cut)
            if re.search(r"\.sw[a-p]$", before, re.IGNORECASE) and cut.startswith("."):
                found.append(cut[1:])  # Vim puts a dot before the name
        else:
            break
    return tuple(dict.fromkeys(each for each in found if each))
