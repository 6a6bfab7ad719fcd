"""Writes the corpus of recorded sessions in hilum-replay: `python tests/support/make_corpus.py`."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import trio
from hilum_replay.sessions.exporting import make_recording, make_repeatable
from hilum_replay.sessions.recording import SESSION_FILE, save_recording
from recorded_sessions import SCENES, record_session

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "plugins/replay/hilum_replay/corpus"
SEED = 1
# The result of these sessions depends on timing, which makes them unfit for other machines.
LEFT_OUT = {"stopped", "stopped_guest"}


async def write_session(name: str) -> None:
    """Record the session of one scene, and write it to the corpus."""
    with TemporaryDirectory() as folder:
        session = await record_session(SEED, Path(folder) / "bench", scenes=[name])
        recording, outcome = await make_repeatable(
            make_recording(session.events, session.get_content)
        )
    assert outcome.comparison.identical, name
    save_recording(recording, CORPUS / name)
    # Where hilum is installed is of no use to others.
    file = CORPUS / name / SESSION_FILE
    file.write_text(file.read_text().replace(str(ROOT), "/opt/hilum"))


def main() -> None:
    """Write the corpus anew."""
    shutil.rmtree(CORPUS, ignore_errors=True)
    for name in sorted(SCENES.keys() - LEFT_OUT):
        trio.run(write_session, name)
        print(name)


if __name__ == "__main__":
    main()
