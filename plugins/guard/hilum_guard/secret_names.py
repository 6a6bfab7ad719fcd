"""What the name of a variable or of a setting says: whether its value is a secret. The one list for the whole house."""

from __future__ import annotations

import re

_WORDS = r"AUTH|COOKIES?|CREDS|DSN|JWT|KEYS?|PASS|PASSPHRASE|PAT|PRIVATE|\w+_PWD"
_ENDS = r"APIKEY|CREDENTIALS?|PASSWD|PASSWORDS?|SECRETS?|TOKENS?|(?:SECRET|ACCESS|PRIVATE)KEY"
_NAME = re.compile(rf"(?:^|_)(?:{_WORDS}|\w*(?:{_ENDS}))\d*(?:_|$)")


def is_secret_name(name: str) -> bool:
    """Tell whether a name speaks of a secret: ``OPENAI_API_KEY``, ``db-password``, ``GITHUB_TOKEN``."""
    return _NAME.search(name.upper().replace("-", "_")) is not None
