"""A regression of hilum: the system prompt says nothing useful about failures.

Each regression is a plugin that an arm adds. It damages hilum when the session opens, in the process
of its attempt.
"""

import hilum_prompt
from hilum import Session, hookimpl
from hilum_prompt.abilities import Abilities

TEXT = """\
# When something fails
Go on with the work.
"""


def make_poor_recovery_text(abilities: Abilities) -> str:
    return TEXT


@hookimpl
def open_session(session: Session) -> None:
    hilum_prompt.make_recovery_text = make_poor_recovery_text  # type: ignore[attr-defined]
