#!/usr/bin/env python3
"""Records the answers in query/testdata/masking from a Cassandra node with authentication and masking enabled.

    record_masking.py ADDRESS FILE...

It needs the Python driver (tools/install.sh). The node needs PasswordAuthenticator, CassandraAuthorizer and
dynamic_data_masking_enabled: true. Each block of a file begins with the role that executes its statement; the answers of blocks
marked "differs" are kept.
"""
import re
import sys
import time

from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster
from cassandra.query import SimpleStatement, tuple_factory

KEYSPACE = "msk"
GRANTS = {"msk_low": ["SELECT", "MODIFY"], "msk_sel": ["SELECT", "MODIFY", "SELECT_MASKED"], "msk_un": ["SELECT", "MODIFY", "UNMASK"]}


def literal(v, t):
    """Returns a value as cqld's types.AppendLiteral writes it."""
    if v is None:
        return "null"
    name, sub = t.typename, getattr(t, "subtypes", ())
    if name in ("frozen", "reversed"):
        return literal(v, sub[0])
    if name in ("text", "varchar", "ascii"):
        return "'" + v.replace("'", "''") + "'"
    if name in ("timestamp",):
        return "'" + v.strftime("%Y-%m-%dT%H:%M:%S.") + "%03dZ'" % (v.microsecond // 1000)
    if name in ("blob",):
        return "0x" + v.hex()
    if name in ("boolean",):
        return "true" if v else "false"
    if name in ("list", "set"):
        a, b = "[]" if name == "list" else "{}"
        return a + ", ".join(literal(x, sub[0]) for x in v) + b
    if name == "map":
        return "{" + ", ".join(literal(k, sub[0]) + ": " + literal(x, sub[1]) for k, x in v.items()) + "}"
    if name == "tuple":
        return "(" + ", ".join(literal(x, s) for x, s in zip(v, sub)) + ")"
    if hasattr(t, "fieldnames"):
        return "{" + ", ".join(n + ": " + literal(x, s) for n, x, s in zip(t.fieldnames, v, sub)) + "}"
    if "VectorType" in name:
        return "[" + ", ".join(repr(x) for x in v) + "]"
    return str(v)


def type_text(t):
    text = t.cql_parameterized_type().replace("varchar", "text").replace("frozen<addr>", "addr")  # the driver freezes all
    return re.sub(r"org.apache.cassandra.db.marshal.VectorType", "vector", text)


def connect(address, role):
    cluster = Cluster([address], auth_provider=PlainTextAuthProvider(role, role), protocol_version=4)
    session = cluster.connect()
    session.row_factory, session.default_timeout = tuple_factory, 60
    return session


def answer(session, text):
    try:
        rows = session.execute(SimpleStatement(text, fetch_size=None))
    except Exception as e:  # every failure is an answer
        m = re.search(r'code=(\d+) \[[^]]*\] message="(.*)"$', str(e), re.S)
        return "error %s: %s\n" % m.groups() if m else "error: %s\n" % e
    out = "".join("warning: %s\n" % w for w in rows.response_future.warnings or ())
    if not rows.column_names:
        return out + "ok\n"
    out += " | ".join(n + " " + type_text(t) for n, t in zip(rows.column_names, rows.column_types)) + "\n"
    for row in rows:
        out += " | ".join(literal(v, t) for v, t in zip(row, rows.column_types)) + "\n"
    return out


def prepare(admin):
    admin.execute("DROP KEYSPACE IF EXISTS " + KEYSPACE)
    admin.execute("CREATE KEYSPACE %s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}" % KEYSPACE)
    for role, permissions in GRANTS.items():
        admin.execute("CREATE ROLE IF NOT EXISTS %s WITH PASSWORD = '%s' AND LOGIN = true" % (role, role))
        for p in permissions:
            admin.execute("GRANT %s ON KEYSPACE %s TO %s" % (p, KEYSPACE, role))
    time.sleep(1)


def record(address, path):
    sessions = {"cassandra": connect(address, "cassandra")}
    prepare(sessions["cassandra"])
    out = []
    for block in open(path).read().split("\n\n"):
        head, _, rest = block.strip("\n").partition("\n")
        if "----" not in block:
            out.append(block.strip("\n"))
            continue
        while head.startswith("#"):
            out.append(head)
            head, _, rest = rest.partition("\n")
        statement, _, expected = rest.partition("----")
        role = head.split()[0]
        if role not in sessions:
            sessions[role] = connect(address, role)
        got = answer(sessions[role], statement.strip())
        if "differs" in head:
            got = expected.lstrip("\n") + "\n"
        out.append(head + "\n" + statement.strip() + "\n----\n" + got.rstrip("\n"))
    open(path, "w").write("\n\n".join(out).replace("\n\n\n", "\n\n") + "\n")


for file in sys.argv[2:]:
    record(sys.argv[1], file)
