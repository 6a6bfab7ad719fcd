"""What a user may set under [memory]."""

from __future__ import annotations

from hilum import section, setting


@section("memory")
class MemorySettings:
    """Trimming of long conversations."""

    summary_timeout: float = setting(default=120.0, minimum=1, help="Seconds that a summary may take.")
