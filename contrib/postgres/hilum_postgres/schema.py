"""The tables, and how a database gets them.

Payloads are ``bytea``, because events may contain characters that ``text`` does not allow. There is
no index on ``updated``, and rows have room to grow, so that PostgreSQL updates a session in place at
each append.
"""

from __future__ import annotations

# The columns, in the order of SessionInfo's fields
FIELDS = "id, workspace, kind, title, created, updated, events, state, forked"
SCHEMA = "hilum"

# Each entry leads from the version that is its index to the next one. Entries are never changed.
MIGRATIONS = (
    """
CREATE TABLE sessions (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    workspace text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    title text NOT NULL,
    created double precision NOT NULL,
    updated double precision NOT NULL,
    events bigint NOT NULL,
    state text NOT NULL,
    forked text NOT NULL,
    epoch bigint NOT NULL DEFAULT 0,
    holder text NOT NULL DEFAULT ''
) WITH (fillfactor = 50);
CREATE TABLE events (
    session bigint NOT NULL,
    seq bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (session, seq)
);
CREATE TABLE holders (
    id text PRIMARY KEY,
    host text NOT NULL,
    pid integer NOT NULL,
    beat timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE VIEW log AS
    SELECT s.id AS session, e.seq, convert_from(e.data, 'UTF8') AS event
    FROM events e JOIN sessions s ON s.number = e.session;
""",
    # What a holder announces, such as the address of a server, and what servers tell each other.
    """
ALTER TABLE holders ADD COLUMN address text NOT NULL DEFAULT '';
CREATE TABLE notices (
    notice text COLLATE "C" PRIMARY KEY,
    published timestamptz NOT NULL,
    until timestamptz NOT NULL
);
CREATE INDEX ON notices (published);
""",
    # In the view, an event is JSON that SQL can use, and a damaged one does not end the query.
    r"""
CREATE FUNCTION read_event(data bytea) RETURNS jsonb
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog AS $$
BEGIN
    -- jsonb has no NUL. JSON has no unescaped chr(1), which stands for an escaped backslash meanwhile.
    RETURN replace(
        replace(replace(convert_from(data, 'UTF8'), '\\', chr(1)), '\u0000', '\ufffd'),
        chr(1), '\\'
    )::jsonb;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
END
$$;
DROP VIEW log;
CREATE VIEW log AS
    SELECT s.id AS session, e.seq, hilum.read_event(e.data) AS event
    FROM events e JOIN sessions s ON s.number = e.session;
""",
)
VERSION = len(MIGRATIONS)

# Only one process at a time changes the tables. The number stands for "hilum".
LOCK_TABLES = "SELECT pg_advisory_xact_lock(448529462637)"
READ_VERSION = "SELECT max(version) FROM hilum.versions"
FIND_VERSIONS = "SELECT to_regclass('hilum.versions') IS NOT NULL"
CREATE_VERSIONS = """
CREATE SCHEMA IF NOT EXISTS hilum;
CREATE TABLE IF NOT EXISTS hilum.versions (
    version integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now()
);
"""

MAY_CREATE = "SELECT has_database_privilege(current_database(), 'CREATE')"
# Reads nothing, but fails if a table or a column is missing or may not be read.
READ_ALL_TABLES = f"""
SELECT (SELECT count(*) FROM (SELECT number, epoch, holder, {FIELDS} FROM hilum.sessions LIMIT 0) s)
    + (SELECT count(*) FROM (SELECT session, seq, data FROM hilum.events LIMIT 0) e)
    + (SELECT count(*) FROM (SELECT id, host, pid, beat FROM hilum.holders LIMIT 0) h)
"""

# The row of the session is the fence: whoever has another epoch, or does not know all events, writes
# nothing. A title is never overwritten.
APPEND = """
WITH claimed AS (
    UPDATE sessions
    SET title = CASE WHEN title = '' THEN %s ELSE title END, state = %s, updated = %s, events = %s
    WHERE number = %s AND epoch = %s AND events = %s
    RETURNING number
)
INSERT INTO events (session, seq, data)
SELECT claimed.number, new.seq, new.data
FROM claimed, unnest(%s::bigint[], %s::bytea[]) AS new (seq, data)
"""

# The lock of a session: the table's number keeps the sessions of two schemas apart. The session's
# number is cut to the 31 bits that fit, so that at worst two sessions share a lock.
KEY = "'hilum.sessions'::regclass::oid::bigint::int, (%s & 2147483647)::int"
LOCK = f"SELECT pg_try_advisory_lock({KEY})"
LOCK_FOR_TRANSACTION = f"SELECT pg_try_advisory_xact_lock({KEY})"
UNLOCK = f"SELECT pg_advisory_unlock({KEY})"
END_HOLDER = """
SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 2 AND granted AND pid <> pg_backend_pid()
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid = 'hilum.sessions'::regclass::oid AND objid = (%s & 2147483647)::oid
"""
# The holder is that of the last opening; its process may have ended.
FIND_LEASE = """
SELECT h.host, h.pid, extract(epoch FROM now() - h.beat)::float, EXISTS (
    SELECT FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND l.classid = 'hilum.sessions'::regclass::oid
        AND l.objid = (s.number & 2147483647)::oid
)
FROM sessions s JOIN holders h ON h.id = s.holder WHERE s.number = %s
"""
RELEASE = "UPDATE sessions SET holder = '' WHERE number = %s AND epoch = %s"
BEAT = """
INSERT INTO holders (id, host, pid, address, beat) VALUES (%s, %s, %s, %s, now())
ON CONFLICT (id) DO UPDATE SET address = excluded.address, beat = now()
"""
FIND_HOLDER = """
SELECT h.id, h.host, h.pid, extract(epoch FROM now() - h.beat)::float, h.address
FROM sessions s LEFT JOIN holders h ON h.id = s.holder WHERE s.number = %s
"""
# A holder that closes in order deletes its row. One whose row is left, but that has no lock or shows
# no sign of life, has died or will lose the session to whoever opens it next.
FIND_HOLDERS = """
SELECT s.id, h.host, h.pid, h.address,
    h.beat > now() - make_interval(secs => %s) AND EXISTS (
        SELECT FROM pg_locks l
        WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted
            AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND l.classid = 'hilum.sessions'::regclass::oid
            AND l.objid = (s.number & 2147483647)::oid
    )
FROM sessions s JOIN holders h ON h.id = s.holder WHERE s.id = ANY(%s)
"""
PUBLISH = """
INSERT INTO notices (notice, published, until) VALUES (%s, now(), now() + make_interval(secs => %s))
ON CONFLICT (notice) DO UPDATE SET until = greatest(notices.until, excluded.until)
"""
FORGET_NOTICES = "DELETE FROM notices WHERE until < now()"
READ_NOTICES = """
SELECT notice FROM notices WHERE published > now() - make_interval(secs => %s) AND until > now()
"""
