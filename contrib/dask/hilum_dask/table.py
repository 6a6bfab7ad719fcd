"""The table of results: one JSON object in each line, or a Parquet file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from hilum import UsageError
from hilum.errors import E_NOT_INSTALLED

from hilum_dask.folders import BatchFolder
from hilum_dask.records import Record, encode
from hilum_dask.tasks import Entry

BATCH_ROWS = 1000
_PARQUET_HINT = "pip install 'hilum-dask[parquet]'"


def read_rows(folder: BatchFolder, entries: list[Entry]) -> Iterator[bytes]:
    """Yield the results of tasks as JSON, in the order of the tasks, without damaged ones."""
    for entry in entries:
        record = folder.read_result(entry.name)
        if record is not None:
            yield encode(record)


def write_table(folder: BatchFolder, entries: list[Entry]) -> int:
    """Write ``results.jsonl`` with all results so far, and return their number.

    Raises:
        OSError: The file cannot be written. The old one remains.
    """
    temporary = folder.table.with_name(f".results.{os.getpid()}")
    count = 0
    try:
        with open(temporary, "wb") as file:
            for row in read_rows(folder, entries):
                file.write(row + b"\n")
                count += 1
        os.replace(temporary, folder.table)
    finally:
        temporary.unlink(missing_ok=True)
    return count


def check_parquet() -> None:
    """Check that Parquet files can be written.

    Raises:
        UsageError: pyarrow is not installed.
    """
    try:
        import_module("pyarrow")
    except ImportError:
        raise UsageError(
            "--parquet needs pyarrow, which is not installed.",
            code=E_NOT_INSTALLED,
            hint=_PARQUET_HINT,
        ) from None


def write_parquet(folder: BatchFolder, entries: list[Entry], path: Path) -> None:
    """Write a Parquet file with all results so far.

    Raises:
        OSError: The file cannot be written.
    """
    pyarrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    schema = _make_schema(pyarrow)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with parquet.ParquetWriter(temporary, schema) as writer:
            rows: list[dict[str, object]] = []
            for row in read_rows(folder, entries):
                rows.append(_flatten(msgspec.json.decode(row, type=Record)))
                if len(rows) == BATCH_ROWS:
                    writer.write_table(pyarrow.Table.from_pylist(rows, schema))
                    rows.clear()
            writer.write_table(pyarrow.Table.from_pylist(rows, schema))
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _flatten(record: Record) -> dict[str, object]:
    """Return a record as a row, whose verification is divided into columns."""
    row: dict[str, object] = msgspec.structs.asdict(record)
    found = row.pop("verification")
    row["verify_exit_code"] = found.exit_code if found else None  # type: ignore[attr-defined]
    row["verify_output"] = found.output if found else None  # type: ignore[attr-defined]
    return row


def _make_schema(pyarrow: Any) -> object:
    """Return the columns of the Parquet file: those of a record, with fixed types."""
    types = {
        "passed": pyarrow.bool_(),
        "retry": pyarrow.bool_(),
        "published": pyarrow.bool_(),
        "disk_full": pyarrow.bool_(),
        "verify_exit_code": pyarrow.int64(),
    }
    numbers = "attempts turns input cached output files_changed epoch".split()
    types |= dict.fromkeys(numbers, pyarrow.int64())
    decimals = "seconds session_seconds cost task_cost started".split()
    types |= dict.fromkeys(decimals, pyarrow.float64())
    names = [name for name in Record.__struct_fields__ if name != "verification"]
    names += ["verify_exit_code", "verify_output"]
    return pyarrow.schema([(name, types.get(name, pyarrow.string())) for name in names])
