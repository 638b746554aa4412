"""The Python driver against cqld: see ../README.md."""

import datetime
import decimal
import ipaddress
import os
import re
import sys
import threading
import time
import traceback
import uuid

from cassandra import AlreadyExists, AuthenticationFailed, ConsistencyLevel, InvalidRequest, Unauthorized
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster, ExecutionProfile, EXEC_PROFILE_DEFAULT, NoHostAvailable
from cassandra.metadata import Murmur3Token
from cassandra.policies import DCAwareRoundRobinPolicy, FallthroughRetryPolicy, TokenAwarePolicy
from cassandra.protocol import SyntaxException
from cassandra.query import BatchStatement, BatchType, SimpleStatement, UNSET_VALUE
from cassandra.util import Date, Duration, SortedSet, Time

POINTS = [p.rsplit(":", 1) for p in os.environ["CQLD_CONTACT_POINTS"].split(",")]
DC = os.environ.get("CQLD_DATACENTER", "datacenter1")
NODES = int(os.environ.get("CQLD_NODES", "1"))
RF = int(os.environ.get("CQLD_RF", "1"))
KS = os.environ.get("CQLD_KEYSPACE", "drv_python")


def connect(retries=None, **options):
    policy = TokenAwarePolicy(DCAwareRoundRobinPolicy(local_dc=DC))
    profile = ExecutionProfile(load_balancing_policy=policy, consistency_level=ConsistencyLevel.QUORUM, request_timeout=15, retry_policy=retries)
    # An endpoint is host and port, so that nodes on one address with several ports are told apart.
    from cassandra.connection import DefaultEndPoint

    if os.environ.get("CQLD_TLS_CA"):
        import ssl

        options["ssl_context"] = ssl.create_default_context(cafile=os.environ["CQLD_TLS_CA"])  # verifies the certificate's names
        if os.environ.get("CQLD_TLS_CERT"):
            options["ssl_context"].load_cert_chain(os.environ["CQLD_TLS_CERT"], os.environ["CQLD_TLS_KEY"])
    cluster = Cluster([DefaultEndPoint(h, int(p)) for h, p in POINTS], port=int(POINTS[0][1]), execution_profiles={EXEC_PROFILE_DEFAULT: profile}, **options)
    try:
        return cluster, cluster.connect(wait_for_all_pools=True)
    except Exception:
        cluster.shutdown()
        raise


def same(got, want, what=""):
    if got != want:
        raise AssertionError("%s: got %r, want %r" % (what, got, want))


class Suite:
    def __init__(self):
        self.cluster, self.session = connect()
        self.failed = False

    def run(self):
        for name in ("connect beta schema types collections nulls named paging nearest batch metadata tokens events alter errors tracing drop").split():
            try:
                reason = getattr(self, "check_" + name)()
                print("skip %s %s" % (name, reason) if reason else "ok " + name, flush=True)
            except Exception as e:
                self.failed = True
                where = traceback.extract_tb(e.__traceback__)[-1]
                print("fail %s line %s: %s: %s" % (name, where.lineno, type(e).__name__, " ".join(str(e).split())), flush=True)
        self.cluster.shutdown()
        return 1 if self.failed else 0

    def check_connect(self):
        hosts = self.cluster.metadata.all_hosts()
        same(len(hosts), NODES, "nodes seen")
        same([h.is_up for h in hosts], [True] * NODES, "nodes up")
        same({h.datacenter for h in hosts}, {DC}, "data centers")
        same(self.cluster.protocol_version, 5, "protocol version")

    def check_beta(self):
        cluster, session = connect(protocol_version=6, allow_beta_protocol_version=True)
        try:
            same(cluster.protocol_version, 6, "protocol version")
            same(len(list(session.execute(session.prepare("SELECT * FROM system_schema.keyspaces"), []))) > 3, True, "keyspaces")
            same(6 in {r.protocol_version for r in session.execute("SELECT protocol_version FROM system_views.clients")}, True, "version of a client")
        finally:
            cluster.shutdown()

    def check_schema(self):
        self.session.execute("DROP KEYSPACE IF EXISTS %s" % KS)
        self.session.execute("CREATE KEYSPACE %s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}" % (KS, RF))
        self.session.set_keyspace(KS)
        began = time.time()
        for i in range(5):
            self.session.execute("CREATE TABLE quick%d (k int PRIMARY KEY)" % i)
        took = time.time() - began
        # A driver that sees two schema versions waits 200 ms and more each time.
        if took > 10:
            raise AssertionError("five CREATE TABLE took %.1f s" % took)

    def check_types(self):
        columns = "a ascii, bi bigint, bl blob, bo boolean, da date, de decimal, dou double, du duration, f float, i inet, n int, sm smallint, te text, ti time, ts timestamp, tu timeuuid, ty tinyint, u uuid, vc varchar, vi varint"
        self.session.execute("CREATE TABLE types (k int PRIMARY KEY, %s)" % columns)
        names = [c.split()[0] for c in columns.split(", ")]
        insert = self.session.prepare("INSERT INTO types (k, %s) VALUES (?%s)" % (", ".join(names), ", ?" * len(names)))
        utc = datetime.datetime
        rows = [
            ["ascii", 2**63 - 1, b"\x00\xff", True, Date("2020-02-29"), decimal.Decimal("123.450"), 1.5e300, Duration(14, 3, 5000), 1.5,
             "127.0.0.1", 2**31 - 1, 32767, "Grüße 世界", Time("23:59:59.999999999"), utc(2020, 1, 2, 3, 4, 5, 678000),
             uuid.UUID("50554d6e-29bb-11e5-b345-feff819cdc9f"), 127, uuid.UUID("123e4567-e89b-42d3-a456-426614174000"), "v", 10**30],
            ["", -(2**63), b"", False, Date("1969-12-31"), decimal.Decimal("-1E-10"), float("-inf"), Duration(-1, -2, -3), -0.5,
             "2001:db8::1", -(2**31), -32768, "", Time(0), utc(1969, 12, 31, 23, 59, 59),
             uuid.UUID("00000000-0000-1000-8000-000000000000"), -128, uuid.UUID(int=0), "", -(10**30)],
        ]
        for k, row in enumerate(rows):
            self.session.execute(insert, [k] + row)
        select = self.session.prepare("SELECT %s FROM types WHERE k = ?" % ", ".join(names))
        for k, row in enumerate(rows):
            got = self.session.execute(select, [k]).one()
            for name, want in zip(names, row):
                value = getattr(got, name)
                if name == "i":
                    value, want = ipaddress.ip_address(value), ipaddress.ip_address(want)
                same(value, want, name)

    def check_collections(self):
        self.session.execute("CREATE TABLE collections (k int PRIMARY KEY, l list<int>, s set<text>, m map<text, int>, fl frozen<list<int>>, fm frozen<map<int, frozen<set<text>>>>)")
        insert = self.session.prepare("INSERT INTO collections (k, l, s, m, fl, fm) VALUES (?, ?, ?, ?, ?, ?)")
        select = self.session.prepare("SELECT * FROM collections WHERE k = ?")
        self.session.execute(insert, (1, [3, 1, 3], {"b", "a"}, {"x": 1, "y": 2}, [9, 8], {1: {"p", "q"}, 2: set()}))
        row = self.session.execute(select, (1,)).one()
        same(row.l, [3, 1, 3])
        same(row.s, SortedSet(["a", "b"]))
        same(dict(row.m), {"x": 1, "y": 2})
        same(row.fl, [9, 8])
        same({k: set(v) for k, v in row.fm.items()}, {1: {"p", "q"}, 2: set()})
        self.session.execute(self.session.prepare("UPDATE collections SET l = l + ?, s = s - ?, m[?] = ? WHERE k = ?"), ([7], {"a"}, "z", 26, 1))
        row = self.session.execute(select, (1,)).one()
        same((row.l, set(row.s), dict(row.m)), ([3, 1, 3, 7], {"b"}, {"x": 1, "y": 2, "z": 26}))
        self.session.execute(insert, (2, [], set(), {}, [], {}))
        row = self.session.execute(select, (2,)).one()
        same((row.l, row.s, row.m), (None, None, None), "empty collections are null")
        same(row.fl, [], "an empty frozen list is not null")

    def check_nulls(self):
        self.session.execute("CREATE TABLE nulls (k int PRIMARY KEY, a text, b int)")
        insert = self.session.prepare("INSERT INTO nulls (k, a, b) VALUES (?, ?, ?)")
        self.session.execute(insert, (1, "a", 1))
        self.session.execute(insert, (1, UNSET_VALUE, 2))
        same(tuple(self.session.execute("SELECT a, b FROM nulls WHERE k = 1").one()), ("a", 2), "unset leaves the value")
        self.session.execute(insert, (1, None, UNSET_VALUE))
        same(tuple(self.session.execute("SELECT a, b FROM nulls WHERE k = 1").one()), (None, 2), "null deletes")
        self.session.execute(insert, (1, "", None))
        same(tuple(self.session.execute("SELECT a, b FROM nulls WHERE k = 1").one()), ("", None), "empty is not null")

    def check_named(self):
        statement = self.session.prepare("INSERT INTO nulls (k, a, b) VALUES (:k, :a, :b)")
        self.session.execute(statement, {"b": 5, "a": "named", "k": 7})
        same(tuple(self.session.execute("SELECT a, b FROM nulls WHERE k = %(key)s", {"key": 7}).one()), ("named", 5))

    def check_paging(self):
        self.session.execute("CREATE TABLE paging (k int, c int, v text, PRIMARY KEY (k, c))")
        insert = self.session.prepare("INSERT INTO paging (k, c, v) VALUES (?, ?, ?)")
        for f in [self.session.execute_async(insert, (i % 5, i, "v%d" % i)) for i in range(500)]:
            f.result()
        rows = list(self.session.execute(SimpleStatement("SELECT k, c FROM paging", fetch_size=37)))
        same(sorted(r.c for r in rows), list(range(500)), "all rows over pages")
        result = self.session.execute(SimpleStatement("SELECT c FROM paging WHERE k = 1", fetch_size=10))
        first, state = [r.c for r in result.current_rows], result.paging_state
        same(len(first), 10)
        again = self.session.execute(SimpleStatement("SELECT c FROM paging WHERE k = 1", fetch_size=1000), paging_state=state)
        same(first + [r.c for r in again], list(range(1, 500, 5)), "a paging state goes on where it was")

    def check_nearest(self):
        self.session.execute("CREATE TABLE nearest (k int PRIMARY KEY, v vector<float, 3>, m map<text, text>)")
        self.session.execute("CREATE CUSTOM INDEX ON nearest (v) USING 'StorageAttachedIndex' WITH OPTIONS = {'similarity_function': 'dot_product'}")
        self.session.execute("CREATE CUSTOM INDEX ON nearest (ENTRIES(m)) USING 'org.apache.cassandra.index.sai.StorageAttachedIndex'")
        insert = self.session.prepare("INSERT INTO nearest (k, v, m) VALUES (?, ?, ?)")
        for i in range(50):
            self.session.execute(insert, (i, [i, i % 7, 1], {"parity": str(i % 2)}))
        search = self.session.prepare("SELECT k, v, similarity_dot_product(v, ?) AS score FROM nearest ORDER BY v ANN OF ? LIMIT ?")
        rows = list(self.session.execute(search, ([2, 1, 0], [2, 1, 0], 5)))
        same([r.k for r in rows], [48, 47, 49, 46, 45], "nearest")
        same([(list(r.v), r.score) for r in rows[:1]], [([48, 6, 1], 51.5)], "vector and score")
        search = self.session.prepare("SELECT k FROM nearest WHERE m[?] = ? AND k = ? ORDER BY v ANN OF ? LIMIT ?")
        same([r.k for r in self.session.execute(search, ("parity", "1", 7, [1, 0, 0], 3))], [7], "nearest of a partition")
        search = self.session.prepare("SELECT k FROM nearest WHERE m[?] = ? ORDER BY v ANN OF ? LIMIT ?")
        same([r.k for r in self.session.execute(search, ("parity", "1", [1, 0, 0], 3))], [49, 47, 45], "nearest with an entry")

    def check_batch(self):
        insert = self.session.prepare("INSERT INTO nulls (k, a, b) VALUES (?, ?, ?)")
        for kind, keys in ((BatchType.UNLOGGED, (20, 21)), (BatchType.LOGGED, (22, 22))):
            batch = BatchStatement(batch_type=kind)
            batch.add(insert, (keys[0], "x", 1))
            batch.add(SimpleStatement("UPDATE nulls SET b = %s WHERE k = %s"), (9, keys[1]))
            self.session.execute(batch)
            same(self.session.execute("SELECT b FROM nulls WHERE k = %s", (keys[1],)).one().b, 9)

    def check_metadata(self):
        self.session.execute("CREATE TABLE meta (a int, b text, c int, d list<int>, s int STATIC, PRIMARY KEY ((a, b), c)) WITH CLUSTERING ORDER BY (c DESC) AND comment = 'noted'")
        table = self.cluster.metadata.keyspaces[KS].tables["meta"]
        same([c.name for c in table.partition_key], ["a", "b"])
        same([(c.name, c.is_reversed) for c in table.clustering_key], [("c", True)])
        same((table.columns["d"].cql_type, table.columns["s"].is_static), ("list<int>", True))
        same(table.options["comment"], "noted")
        statement = self.session.prepare("SELECT * FROM meta WHERE b = ? AND a = ?")
        same(statement.routing_key_indexes, [1, 0], "key indexes")

    def check_tokens(self):
        ring = self.cluster.metadata.token_map.ring
        same(len(ring), 16 * NODES, "tokens")
        for key in ("theo", "Grüße", "a key of more than sixteen bytes é"):
            # The driver's C extension for Murmur3 may be missing: then its own Python one computes.
            token = Murmur3Token.from_key(key.encode())
            self.session.execute("CREATE TABLE IF NOT EXISTS tokens (k text PRIMARY KEY)")
            self.session.execute("INSERT INTO tokens (k) VALUES (%s)", (key,))
            same(self.session.execute("SELECT token(k) AS t FROM tokens WHERE k = %s", (key,)).one().t, token.value, key)
            same(len(self.cluster.metadata.get_replicas(KS, key.encode())), RF, "replicas")

    def check_events(self):
        other, session = connect()
        try:
            session.execute("CREATE TABLE %s.seen (k int PRIMARY KEY)" % KS)
            deadline = time.time() + 10
            while "seen" not in self.cluster.metadata.keyspaces[KS].tables:
                if time.time() > deadline:
                    raise AssertionError("the table another session made was not announced")
                time.sleep(0.05)
            session.execute("DROP TABLE %s.seen" % KS)
            while "seen" in self.cluster.metadata.keyspaces[KS].tables:
                if time.time() > deadline:
                    raise AssertionError("the table another session dropped was not announced")
                time.sleep(0.05)
        finally:
            other.shutdown()

    def check_alter(self):
        self.session.execute("CREATE TABLE altered (k int PRIMARY KEY, a int)")
        select = self.session.prepare("SELECT * FROM altered")
        self.session.execute("INSERT INTO altered (k, a) VALUES (1, 2)")
        same(self.session.execute(select).one()._fields, ("k", "a"))
        self.session.execute("ALTER TABLE altered ADD aa text")
        self.session.execute("UPDATE altered SET aa = 'new' WHERE k = 1")
        for _ in range(3 * NODES):
            same(tuple(self.session.execute(select).one()), (1, 2, "new"), "a prepared SELECT * sees the new column")

    def check_errors(self):
        for statement, kind in (
            ("SELEC", SyntaxException),
            ("SELECT * FROM nosuch", InvalidRequest),
            ("CREATE TABLE altered (k int PRIMARY KEY)", AlreadyExists),
        ):
            try:
                self.session.execute(statement)
            except kind:
                continue
            raise AssertionError("%s gave no %s" % (statement, kind.__name__))

    def check_tracing(self):
        result = self.session.execute("SELECT * FROM nulls WHERE k = 7", trace=True)
        trace = result.get_query_trace(max_wait_sec=10)
        if not trace.events or trace.duration is None:
            raise AssertionError("a trace without events or duration")

    def check_drop(self):
        self.session.execute("DROP KEYSPACE %s" % KS)
        if KS in self.cluster.metadata.keyspaces:
            raise AssertionError("the keyspace is still in the metadata")


def now():
    return int(time.time() * 1000)


def failover():
    cluster, session = connect()
    session.execute("DROP KEYSPACE IF EXISTS %s" % KS)
    session.execute("CREATE KEYSPACE %s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}" % (KS, RF))
    session.execute("CREATE TABLE %s.acked (id int PRIMARY KEY)" % KS)
    insert = session.prepare("INSERT INTO %s.acked (id) VALUES (?)" % KS)
    select = session.prepare("SELECT id FROM %s.acked WHERE id = ?" % KS)
    insert.is_idempotent = select.is_idempotent = True
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    print("ready", flush=True)
    acked, i = [], 0
    while not stop.is_set():
        try:
            session.execute(insert, (i,))
            acked.append(i)
            print("acked %d %d" % (now(), i), flush=True)
            if i % 10 == 0 and session.execute(select, (i,)).one() is None:
                print("missing %d" % i, flush=True)
        except Exception as e:
            print("error %d %s: %s" % (now(), type(e).__name__, " ".join(str(e).split())), flush=True)
        i += 1
        time.sleep(0.002)
    for i in acked:
        if session.execute(select, (i,)).one() is None:
            print("missing %d" % i, flush=True)
    print("done", flush=True)
    session.execute("DROP KEYSPACE %s" % KS)
    cluster.shutdown()
    return 0


def ring():
    # When a node was removed and the driver then gets no answer for so long, 2 s by default, it forgets for good that its
    # tokens are stale: it connects elsewhere, and the host that is gone is gone from what it compares with. No server
    # can help that; a machine that is busy with other tests must not show it.
    cluster, session = connect(control_connection_timeout=20)
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    print("ready", flush=True)
    last = None
    while not stop.wait(0.02):
        seen = (len(cluster.metadata.all_hosts()), len(cluster.metadata.token_map.ring))
        if seen != last:
            print("ring %d %d %d" % ((now(),) + seen), flush=True)
            last = seen
    print("done", flush=True)
    cluster.shutdown()
    return 0


def rolling():
    cluster, session = connect(retries=FallthroughRetryPolicy())
    session.execute("DROP KEYSPACE IF EXISTS %s" % KS)
    session.execute("CREATE KEYSPACE %s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}" % (KS, RF))
    session.execute("CREATE TABLE %s.rolling (id int PRIMARY KEY)" % KS)
    statements = [session.prepare(text % KS) for text in ("INSERT INTO %s.rolling (id) VALUES (?)", "SELECT id FROM %s.rolling WHERE id = ?")]
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    workers, answered = 4, [0, 0, 0, 0]

    def work(w):
        i = w
        while not stop.is_set():
            for statement in statements:
                try:
                    session.execute(statement, (i,))
                    answered[w] += 1
                except Exception as e:
                    print("error %d %s: %s" % (now(), type(e).__name__, " ".join(str(e).split())), flush=True)
                time.sleep(0.005)
            i += workers

    print("ready", flush=True)
    threads = [threading.Thread(target=work, args=(w,)) for w in range(workers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print("answered %d" % sum(answered), flush=True)
    print("done", flush=True)
    cluster.shutdown()
    return 0


def login():
    """Connects with correct and with wrong credentials."""
    user = os.environ["CQLD_USER"]
    text = "Provided username %s and/or password are incorrect"

    def correct():
        cluster, session = connect(auth_provider=PlainTextAuthProvider(user, os.environ["CQLD_PASSWORD"]))
        same(session.execute("SELECT key FROM system.local").one().key, "local")
        session.execute("DROP KEYSPACE IF EXISTS %s" % KS)
        session.execute("CREATE KEYSPACE %s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}" % (KS, RF))
        session.execute("CREATE TABLE %s.t (k int PRIMARY KEY, v text)" % KS)
        session.execute("INSERT INTO %s.t (k, v) VALUES (1, 'written')" % KS)
        same(session.execute("SELECT v FROM %s.t WHERE k = 1" % KS).one().v, "written")
        session.execute("DROP KEYSPACE %s" % KS)
        cluster.shutdown()

    def refused(name):
        try:
            connect(auth_provider=PlainTextAuthProvider(name, "wrong"))
        except NoHostAvailable as e:
            for error in e.errors.values():
                same(type(error), AuthenticationFailed)
                same(text % name in str(error), True, str(error))
            return
        raise AssertionError(name + " is logged in")

    failed = 0
    for name, check in (("correct", correct), ("wrong", lambda: refused(user)), ("unknown", lambda: refused("no_such_role"))):
        try:
            check()
            print("ok " + name, flush=True)
        except Exception as e:
            failed = 1
            print("fail %s %s: %s" % (name, type(e).__name__, " ".join(str(e).split())), flush=True)
    return failed


def script():
    """Executes the steps of the standard input as several roles, and prints an answer for each."""
    settle = int(os.environ.get("CQLD_SETTLE", "0")) / 1000
    sessions, prepared = {}, {}

    def session(role):
        if role not in sessions:
            user, password = (os.environ["CQLD_USER"], os.environ["CQLD_PASSWORD"]) if role == "admin" else (role, "secret")
            sessions[role] = connect(auth_provider=PlainTextAuthProvider(user, password))
        return sessions[role][1]

    def step(line):
        head, _, text = line.replace("$rf", str(RF)).partition(": ")
        role, *rest = head.split()
        try:
            if rest and rest[0] == "prepare":
                prepared[role, rest[1]] = session(role).prepare(text)
                return "OK"
            rows = session(role).execute(prepared[role, rest[1]] if rest else text)
            return " ".join(["OK"] + ["(%s)" % ", ".join(str(v) for v in row) for row in rows])
        except (Unauthorized, InvalidRequest, SyntaxException) as e:
            found = re.search(r'code=([0-9a-f]+) \[[^]]*\] message="(.*)">?$', str(e))
            return "%s %s" % found.groups()
        finally:
            if role == "admin" or text.startswith(("GRANT", "REVOKE")):
                time.sleep(settle)

    for line in sys.stdin:
        print(step(line.rstrip("\n")), flush=True)
    for cluster, _ in sessions.values():
        cluster.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit({"suite": lambda: Suite().run(), "failover": failover, "ring": ring, "rolling": rolling, "login": login, "script": script}[sys.argv[1]]())
