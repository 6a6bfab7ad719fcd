"""When the program started, which tells old files from new ones."""

import os
import time

from hilum import program_start


def run_in_fork(function) -> str:
    """Return what a function returns in a forked process."""
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        try:
            os.write(writer, str(function()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="ascii") as file:
        text = file.read()
    os.waitpid(process, 0)
    return text


def test_the_start_is_that_of_the_process() -> None:
    now = time.time()
    start = program_start.find_start()
    assert start < now
    assert program_start.find_start() == start
    # The system counts in hundredths of a second.
    assert float(run_in_fork(program_start.find_start)) >= now - 0.02


def test_a_process_that_was_forked_ahead_begins_again() -> None:
    before = time.time()

    def begin() -> float:
        program_start.begin_again()
        return program_start.find_start()

    assert float(run_in_fork(begin)) >= before
    # The parent keeps its own.
    assert program_start.find_start() < before
