"""Who uses the server: names, rights and workspaces."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import attrs

Rights = Literal["watch", "prompt", "approve", "administer"]
RIGHTS: tuple[Rights, ...] = get_args(Rights)
"""All rights, weakest first; each one includes those before it."""


@attrs.frozen
class User:
    """A person or program that uses the server.

    Attributes:
        name: The name, which other users see with this user's answers.
        rights: What the user may do.
        workspaces: Folders whose sessions the user may use; empty for all folders of the server.
        token: Id of the token that the user presented.
        login: Number of the login in a browser with which the user presented it; 0 for none. It is
            the same user with each of them.
    """

    name: str
    rights: Rights
    workspaces: tuple[Path, ...] = ()
    token: str = ""
    login: int = attrs.field(default=0, eq=False)

    def may(self, rights: Rights) -> bool:
        """Return whether the user has a right."""
        return RIGHTS.index(self.rights) >= RIGHTS.index(rights)

    def may_enter(self, workspace: Path) -> bool:
        """Return whether the user may use the sessions of a folder."""
        return not self.workspaces or workspace in self.workspaces
