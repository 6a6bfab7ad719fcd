"""The settings of the plugin."""

from __future__ import annotations

from hilum import section, setting


@section("postgres")
class PostgresSettings:
    """The database that sessions are shared in. Without a URL, they are in the session file."""

    url: str = setting(
        "",
        secret=True,
        help=(
            "URL of the database, such as postgresql://USER@HOST/NAME?sslmode=verify-full. The"
            " password is best kept in ~/.pgpass."
        ),
    )
    outage_timeout: float = setting(
        300.0,
        minimum=1,
        project=False,
        help="Seconds that runs wait for an unreachable database; then they end.",
    )
