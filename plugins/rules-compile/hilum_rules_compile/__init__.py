"""``hilum rules compile``: a model proposes checks for sentences, and the user signs them.

At the start of a session, the plugin points out new binding sentences, and locks that are not as
they were signed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from hilum import hookimpl

if TYPE_CHECKING:
    from hilum import Session


@hookimpl
async def open_session(session: Session) -> None:
    """Say what the user should know about sentences and signed checks."""
    from hilum_rules import Rules

    rules = session.plugin(Rules)
    # Most projects have neither rules nor locks, and nothing to point out.
    if rules is None or not (rules.store.loaded or rules.snapshot.problems):
        return
    from hilum_rules_compile.pointing_out import point_out

    def list_events() -> list[tuple[str, str]]:
        return list(point_out(rules.store, attended=session.attended))

    for name, line in await trio.to_thread.run_sync(list_events):
        session.note(name, say=line)
