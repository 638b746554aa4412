"""$filter, $select, $top, continuation, order, plans, and what goes beyond Azure."""

import re

from checks import ENDPOINTS, PREFIX
from raw_tables import DATA
from wire import FULL, NONE, STREAM, Wire, at, batch, quote

w = Wire()
T, MANY = PREFIX + "Queries", PREFIX + "Many"
# Keys in the order of their code units, which is not that of their hashes, nor of any language.
PARTITIONS = ["", "A", "a", "a b", "aa", "b", "é", "中", "𝄞"]
ROWS = [
    ("1", {"s": "one", "i": 1, "b": True, "d": 1.5, "l": "1", "t": "2020-01-01T00:00:00Z", "g": "00000000-0000-0000-0000-000000000001", "x": "AQ=="}),
    ("10", {"s": "ten", "i": 10, "b": False, "d": 10.0, "l": "10", "t": "2020-01-10T00:00:00.0000001Z", "g": "00000000-0000-0000-0000-000000000010", "x": "Cg=="}),
    ("2", {"s": "two", "i": 2, "b": True, "d": -2.5, "l": "4000000000", "t": "2020-01-02T00:00:00Z", "g": "00000000-0000-0000-0000-000000000002", "x": "Ag=="}),
    ("3", {"i": -3, "d": 1e300}),
    ("O'Neil", {"s": "O'Neil", "i": 2147483647, "l": "-9223372036854775808"}),
]
TYPES = {"l": "Edm.Int64", "t": "Edm.DateTime", "g": "Edm.Guid", "x": "Edm.Binary", "d": "Edm.Double"}


def typed(pk, rk, props):
    e = {"PartitionKey": pk, "RowKey": rk}
    for k, v in props.items():
        if k in TYPES:
            e[k + "@odata.type"] = TYPES[k]
        e[k] = v
    return e


def rows(r):
    return [e["RowKey"] for e in r.json["value"]] if r.status == 200 else [str(r.status), r.code]


def setup(c):
    w.create(T)
    r = batch(w, T, [("POST", None, typed("q", rk, props), {}) for rk, props in ROWS])
    c.same(r.statuses, [204] * len(ROWS), "load by batch")
    for pk in reversed(PARTITIONS):
        c.same(w.insert(T, {"PartitionKey": pk, "RowKey": "r", "n": len(pk)}).status, 201, "partition %r" % pk)


def filters(c):
    keys = [rk for rk, _ in ROWS]
    for text, want in (
        ("PartitionKey eq 'q'", keys), ("PartitionKey eq 'q' and RowKey eq '10'", ["10"]), ("PartitionKey eq 'q' and RowKey ge '10' and RowKey lt '3'", ["10", "2"]),
        ("PartitionKey eq 'q' and RowKey gt '10'", ["2", "3", "O'Neil"]), ("PartitionKey eq 'q' and RowKey le '10'", ["1", "10"]), ("PartitionKey eq 'q' and RowKey ne '10'", ["1", "2", "3", "O'Neil"]),
        ("PartitionKey eq 'q' and RowKey eq 'O''Neil'", ["O'Neil"]), ("s eq 'O''Neil'", ["O'Neil"]), ("PartitionKey eq 'q' and RowKey eq 'nothing'", []),
        ("s eq 'one'", ["1"]), ("s gt 'one' and s lt 'two'", ["10"]), ("PartitionKey eq 'q' and s ge 'ten'", ["10", "2"]),
        ("i eq 10", ["10"]), ("i lt 2", ["1", "3"]), ("i ge 10", ["10", "O'Neil"]), ("i eq -3", ["3"]), ("i gt 1 and i le 10", ["10", "2"]),
        ("b eq true", ["1", "2"]), ("b eq false", ["10"]), ("PartitionKey eq 'q' and b", ["1", "2"]), ("PartitionKey eq 'q' and not b", ["10", "3", "O'Neil"]), ("PartitionKey eq 'q' and not (s ne '')", ["3"]),
        ("d eq 1.5", ["1"]), ("d lt 0.0", ["2"]), ("d gt 1.0e10", ["3"]), ("l eq 10L", ["10"]), ("l gt 10L", ["2"]), ("l eq -9223372036854775808L", ["O'Neil"]),
        ("t eq datetime'2020-01-01T00:00:00Z'", ["1"]), ("t gt datetime'2020-01-10T00:00:00Z'", ["10"]), ("t le datetime'2020-01-02T00:00:00.000Z'", ["1", "2"]),
        ("g eq guid'00000000-0000-0000-0000-000000000010'", ["10"]), ("x eq X'02'", ["2"]), ("x eq binary'0A'", ["10"]),
        ("s eq 'one' or i eq -3", ["1", "3"]), ("(s eq 'one' or s eq 'two') and b eq true", ["1", "2"]), ("PartitionKey eq 'q' and not (i gt 1)", ["1", "3"]),
        ("s eq 'one' or s eq 'ten' and b eq true", ["1"]), ("i eq 'one'", []), ("nothing eq 1", []), ("PartitionKey eq 'q' and Timestamp ge datetime'2020-01-01T00:00:00Z'", keys),
        ("PartitionKey eq 'q' and Timestamp lt datetime'2020-01-01T00:00:00Z'", []), ("PartitionKey eq 'q' and (RowKey eq '1' or RowKey eq '3')", ["1", "3"]),
    ):
        c.same(rows(w.filter(T, text)), want, text)
    for text in ("aaa bbb ccc", "PartitionKey eq", "PartitionKey eq 'q", "(i eq 1", "i eq 1)", "i foo 1", "i eq datetime'x'", "g eq guid'x'", "eq 1", "i eq 1 and", "not"):
        r = w.filter(T, text)
        c.reply(r, 400, "InvalidInput", {"content-type": lambda v: v and v.endswith(STREAM), "x-content-type-options": "nosniff", "x-ms-version": "2019-02-02"})
    r = w.filter(T, "aaa bbb ccc")
    c.true(r.message.startswith("Syntax error at position 7 in 'aaa bbb ccc'."), "message: " + r.message)


def select_and_top(c):
    r = w.query(T, "$select=s,PartitionKey,i&$filter=" + quote("PartitionKey eq 'q' and RowKey le '10'"), headers={"Accept": NONE})
    c.same([{k: v for k, v in e.items() if v is not None} for e in r.json["value"]], [{"PartitionKey": "q", "s": "one", "i": 1}, {"PartitionKey": "q", "s": "ten", "i": 10}], "the selected alone")
    r = w.query(T, "$select=RowKey&$filter=" + quote("PartitionKey eq 'q' and s eq 'two'"), headers={"Accept": NONE})
    c.same([e.get("RowKey") for e in r.json["value"]], ["2"], "a filter on what was not selected")
    r = w.query(T, "$top=2&$filter=" + quote("PartitionKey eq 'q'"))
    c.reply(r, 200, headers={**DATA, "x-ms-continuation-nextpartitionkey": bool, "x-ms-continuation-nextrowkey": bool})
    c.same(rows(r), ["1", "10"], "the first two")
    c.same(r.json["odata.metadata"], w.base + "/$metadata#" + T, "metadata")
    c.true(all(re.match(r"1!\d+!", r.headers[h]) for h in ("x-ms-continuation-nextpartitionkey", "x-ms-continuation-nextrowkey")), "tokens: %s" % r.headers)
    for top, status in (("1001", 400), ("0", None), ("-1", 400), ("x", 400), ("1000", 200)):
        r = w.query(T, "$top=" + top)
        c.true(r.status == status if status else r.status in (200, 400), "$top=%s: %d" % (top, r.status))
    r = w.query(T, "$top=3")
    c.same([e["PartitionKey"] for e in r.json["value"]], PARTITIONS[:3], "in the order of keys")
    c.reply(w.query(T, "NextPartitionKey=rubbish&NextRowKey=rubbish"), 400)
    r = w.filter(T, "PartitionKey eq 'q'", headers={"Accept": FULL})
    c.true(all(e["odata.editLink"] == at(T, "q", e["RowKey"])[1:] for e in r.json["value"]), "edit links")
    c.same(r.json["value"][0].get("odata.type"), w.account + "." + T, "odata.type")


def order(c):
    r = w.query(T)
    got = [(e["PartitionKey"], e["RowKey"]) for e in r.json["value"]]
    c.same(got, sorted(got, key=lambda k: (k[0].encode("utf-16-be"), k[1])) if "𝄞" not in str(PARTITIONS) else sorted(got), "the whole table in order")
    c.same([k for k, _ in got if k != "q"], PARTITIONS, "partitions in ordinal order")
    for text, want in (("PartitionKey ge 'a' and PartitionKey lt 'b'", ["a", "a b", "aa"]), ("PartitionKey gt 'a' and PartitionKey le 'b'", ["a b", "aa", "b"]), ("PartitionKey eq ''", [""]),
                       ("PartitionKey gt 'q'", ["é", "中", "𝄞"]), ("PartitionKey lt 'a'", ["", "A"]), ("PartitionKey eq 'b' or PartitionKey eq 'A'", ["A", "b"]),
                       ("PartitionKey ge 'a' and PartitionKey lt 'b' and RowKey eq 'r'", ["a", "a b", "aa"]), ("PartitionKey ge 'a' and PartitionKey lt 'b' and RowKey gt 'r'", []),
                       ("n eq 2", ["aa"]), ("not (PartitionKey lt 'é')", ["é", "中", "𝄞"]), ("RowKey eq 'r' and PartitionKey ne 'a'", [p for p in PARTITIONS if p != "a"])):
        c.same([e["PartitionKey"] for e in w.filter(T, text).json["value"]], want, text)


def plans(c):
    for text, plan, most in (("PartitionKey eq 'q' and RowKey eq '1'", "point", 1), ("PartitionKey eq 'q' and RowKey ge '2'", "row", 3), ("PartitionKey ge 'a' and PartitionKey lt 'b'", "partition", 4),
                             ("i eq 1", "table", 14)):
        r = w.filter(T, text)
        scanned = r.headers.get("x-cqld-rows-scanned", "-1")
        c.true(0 <= int(scanned) <= most, "%s read %s rows, %d are enough" % (text, scanned, most))
        c.true(plan in r.headers.get("x-cqld-plan", "").lower(), "%s: plan %r" % (text, r.headers.get("x-cqld-plan")))
        c.true(float(r.headers.get("x-ms-request-charge", "-1")) >= 0, "%s: charge %r" % (text, r.headers.get("x-ms-request-charge")))


PAGES, EACH = 23, 120  # partitions and their rows: 2,760 entities


def load_many(c):
    w.create(MANY)
    nodes = [Wire(e) for e in ENDPOINTS]
    for p in range(PAGES):
        for at_row in range(0, EACH, 60):
            changes = [("POST", None, {"PartitionKey": "p%02d" % p, "RowKey": "r%04d" % r, "n": p * EACH + r, "pad": "x" * 20}, {}) for r in range(at_row, at_row + 60)]
            c.same(batch(nodes[p % len(nodes)], MANY, changes).statuses, [204] * 60, "sixty more")


def follow(query, nodes):
    """All entities of a query; each page is asked of another node."""
    out, sizes, more = [], [], ""
    while True:
        r = nodes[len(sizes) % len(nodes)].query(MANY, query + more)
        if r.status != 200:
            return out, [r.status, r.code]
        page = r.json["value"]
        out, sizes = out + page, sizes + [len(page)]
        pk, rk = r.headers.get("x-ms-continuation-nextpartitionkey"), r.headers.get("x-ms-continuation-nextrowkey")
        if pk is None or len(sizes) > 200:
            return out, sizes
        more = "&NextPartitionKey=" + quote(pk) + ("&NextRowKey=" + quote(rk) if rk else "")


def paging(c):
    nodes = [Wire(e) for e in ENDPOINTS]
    all_n = list(range(PAGES * EACH))
    got, sizes = follow("", nodes)
    c.same([e["n"] for e in got], all_n, "every entity once, in order, from all nodes in turn")
    c.same(sizes[:2], [1000, 1000], "full pages of a thousand")
    got, sizes = follow("$top=700", nodes)
    c.same(([e["n"] for e in got], sizes[:3]), (all_n, [700, 700, 700]), "pages of 700")
    text = "$filter=" + quote("PartitionKey ge 'p05' and PartitionKey lt 'p12'")
    got, sizes = follow(text + "&$top=250", nodes)
    c.same([e["n"] for e in got], list(range(5 * EACH, 12 * EACH)), "a range of partitions in pages")
    got, _ = follow("$filter=" + quote("PartitionKey eq 'p07' and RowKey ge 'r0010' and RowKey lt 'r0100'") + "&$top=7", nodes)
    c.same([e["n"] for e in got], list(range(7 * EACH + 10, 7 * EACH + 100)), "rows of a partition in pages of seven")
    got, _ = follow("$filter=" + quote("n ge 1000 and n lt 1300"), nodes)
    c.same([e["n"] for e in got], list(range(1000, 1300)), "a filter on a property over all")
    got, _ = follow("$filter=" + quote("n eq 5 or n eq 2755"), nodes)
    c.same([e["n"] for e in got], [5, 2755], "the first and the last")
    got, _ = follow("$select=n&$top=999", nodes)
    c.same([e.get("n") for e in got], all_n, "with select")
    r = nodes[0].query(MANY, "$filter=" + quote("PartitionKey ge 'p03' and PartitionKey lt 'p04'"))
    c.true(EACH <= int(r.headers.get("x-cqld-rows-scanned", "0")) <= EACH + 2, "a range reads what it returns: %s rows" % r.headers.get("x-cqld-rows-scanned"))


def beyond_azure(c):
    c.same(rows(w.filter(T, "startswith(s,'t')")), ["10", "2"], "startswith")
    c.same(rows(w.filter(T, "PartitionKey eq 'q' and startswith(RowKey,'1')")), ["1", "10"], "startswith of RowKey")
    c.same(rows(w.filter(T, "contains(s,'n')")), ["1", "10"], "contains")
    r = w.send("GET", "/%s()/$count" % MANY)
    c.same((r.status, r.text), (200, str(PAGES * EACH)), "$count")
    r = w.send("GET", "/%s()/$count" % MANY, "$filter=" + quote("PartitionKey eq 'p01'"))
    c.same((r.status, r.text), (200, str(EACH)), "$count of a partition")
    r = w.query(MANY, "$orderby=" + quote("RowKey desc") + "&$top=3&$filter=" + quote("PartitionKey eq 'p02'"))
    c.same(rows(r), ["r0119", "r0118", "r0117"], "in reverse")
    more = "&NextPartitionKey=%s&NextRowKey=%s" % tuple(quote(r.headers.get("x-ms-continuation-next%skey" % k, "")) for k in ("partition", "row"))
    c.same(rows(w.query(MANY, "$orderby=" + quote("RowKey desc") + "&$top=2&$filter=" + quote("PartitionKey eq 'p02'") + more)), ["r0116", "r0115"], "and on")
    c.reply(w.query(MANY, "$orderby=n"), 400)
    r = w.send("DELETE", "/%s()" % MANY, "$filter=" + quote("PartitionKey eq 'p03' and n lt %d" % (3 * EACH + 20)))
    c.reply(r, 204, headers={"x-cqld-deleted": "20"})
    c.same(w.send("GET", "/%s()/$count" % MANY, "$filter=" + quote("PartitionKey eq 'p03'")).text, str(EACH - 20), "the others are left")
    c.reply(w.send("DELETE", "/%s(PartitionKey='p04')" % MANY), 204)
    c.same(w.filter(MANY, "PartitionKey eq 'p04'").json["value"], [], "a partition is gone")
    c.same(w.send("GET", "/%s()/$count" % MANY).text, str(PAGES * EACH - EACH - 20), "and nothing else")
    r = w.insert(T, {"PartitionKey": "ttl", "RowKey": "r", "v": 1}, headers={"x-cqld-ttl": "3"})
    c.same(r.status, 201, "with a time to live")
    from wire import wait_for
    c.true(w.get(T, "ttl", "r").status == 200, "there for now")
    c.true(wait_for(lambda: w.get(T, "ttl", "r").status == 404, 15), "gone after three seconds")


GROUPS = [setup, filters, select_and_top, order, plans, load_many, paging, beyond_azure]
