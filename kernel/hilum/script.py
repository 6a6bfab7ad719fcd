"""The script ``hilum``, which imports the program only if no fork server has it already."""

import sys

from hilum.fork_client import run_in_server


def main() -> int:
    """Run ``hilum`` in the fork server if there is one, or as usual; return the exit code."""
    code = run_in_server(sys.argv[1:])
    if code is not None:
        return code
    from hilum.__main__ import main as start  # a handed-over start does not need it

    return start()
