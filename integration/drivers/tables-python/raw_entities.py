"""Entities: insert, read, update, merge, delete, ETags, types, metadata levels, and every limit."""

import re

from checks import PREFIX
from raw_tables import DATA, NO_BODY
from wire import FULL, MINIMAL, NONE, STREAM, Wire, at, quote

w = Wire()
T = PREFIX + "Entities"
# A fraction's zeros at the end are left out, and the point with them.
ETAG = re.compile(r"W/\"datetime'\d{4}-\d\d-\d\dT\d\d%3A\d\d%3A\d\d(\.\d{0,6}[1-9])?Z'\"")
EDM = {"PartitionKey": "p", "age": 39, "sex": "male", "married": True, "ratio": 3.1, "even@odata.type": "Edm.Double", "even": 3.0,
       "large@odata.type": "Edm.Int64", "large": "933311100", "birth@odata.type": "Edm.DateTime", "birth": "1973-10-04T00:00:00Z",
       "binary@odata.type": "Edm.Binary", "binary": "YmluYXJ5", "clsid@odata.type": "Edm.Guid", "clsid": "c9da6455-213d-42c9-9a79-3e9149a57833"}


def is_etag(v):
    return bool(v and ETAG.fullmatch(v))


def setup(c):
    c.true(w.create(T).status in (201, 409), "create")


def insert_and_get(c):
    r = w.insert(T, dict(EDM, RowKey="all"))
    url = w.base + at(T, "p", "all")
    c.reply(r, 201, headers={**DATA, "content-type": MINIMAL + STREAM, "etag": is_etag, "location": url}, absent=["preference-applied"])
    etag, j = r.headers.get("etag"), r.json
    c.same(j.get("odata.metadata"), w.base + "/$metadata#" + T + "/@Element", "odata.metadata")
    c.same(j.get("odata.etag"), etag, "odata.etag is the header's")
    c.same("W/\"datetime'%s'\"" % quote(j["Timestamp"]), etag, "Timestamp and ETag are one")
    props = {k: v for k, v in j.items() if not k.startswith("odata.") and k != "Timestamp"}
    want = {k: v for k, v in EDM.items() if k != "even@odata.type"}  # JSON tells it: 3.0
    c.same(props, dict(want, RowKey="all"), "properties come back with their types")
    c.true('"even":3.0,' in r.text, "a Double is one")
    c.same([k for k in j][:5], ["odata.metadata", "odata.etag", "PartitionKey", "RowKey", "Timestamp"], "what comes first")
    names = [k for k in j if k in EDM]
    c.same(names.index("birth@odata.type") + 1, names.index("birth"), "a type stands before its value")
    r = w.get(T, "p", "all")
    c.reply(r, 200, headers={**DATA, "content-type": MINIMAL + STREAM, "etag": etag})
    c.same(r.json, j, "get gives what insert gave")
    r = w.get(T, "p", "all", headers={"Accept": NONE})
    c.reply(r, 200, headers={"content-type": NONE + STREAM, "etag": etag})
    c.same({k for k in r.json if "odata" in k}, set(), "no metadata")
    c.same(r.json.get("large"), "933311100", "an Int64 is a string")
    r = w.get(T, "p", "all", headers={"Accept": FULL})
    c.reply(r, 200, headers={"content-type": FULL + STREAM, "etag": etag})
    for k, v in (("odata.type", w.account + "." + T), ("odata.id", url), ("odata.editLink", at(T, "p", "all")[1:]), ("Timestamp@odata.type", "Edm.DateTime"), ("odata.etag", etag)):
        c.same(r.json.get(k), v, k)
    r = w.get(T, "p", "all", "$select=age,nothing")
    c.same({k: v for k, v in r.json.items() if not k.startswith("odata.")}, {"age": 39, "nothing": None} if "nothing" in r.json else {"age": 39}, "select")
    c.reply(w.get(T, "p", "none"), 404, "ResourceNotFound", DATA)
    c.reply(w.insert(T, dict(EDM, RowKey="all")), 409, "EntityAlreadyExists", DATA)
    c.reply(w.send("GET", at(T.upper(), "p", "all")), 200)


def prefer(c):
    r = w.insert(T, {"PartitionKey": "p", "RowKey": "quiet"}, headers={"Prefer": "return-no-content"})
    url = w.base + at(T, "p", "quiet")
    c.reply(r, 204, headers={**DATA, "preference-applied": "return-no-content", "etag": is_etag, "location": url, "dataserviceid": url, "content-length": NO_BODY})
    r = w.insert(T, {"PartitionKey": "p", "RowKey": "loud"}, headers={"Prefer": "return-content"})
    c.reply(r, 201, headers={"preference-applied": "return-content"})
    r = w.insert(T, {"PartitionKey": "p", "RowKey": "none"}, headers={"Accept": NONE})
    c.reply(r, 201, headers={"content-type": NONE + STREAM})
    c.same(sorted(r.json), ["PartitionKey", "RowKey", "Timestamp"], "body without metadata")
    r = w.insert(T, {"PartitionKey": "p", "RowKey": "full"}, headers={"Accept": FULL})
    c.same(r.json.get("odata.id"), w.base + at(T, "p", "full"), "body with all metadata")


def odd_keys(c):
    for key in ("", " ", "a b", "it's", "ü", "𝄞", "%", "100%25", "a+b", "a&b=c", "(x)", "~`!@$^*", ",;:", "a'',RowKey='b", "x" * 512):
        r = w.insert(T, {"PartitionKey": key, "RowKey": key, "v": key}, headers={"Accept": FULL})
        c.same(r.status, 201, "insert %r" % key[:20])
        r = w.get(T, key, key)
        c.same((r.status, r.json.get("PartitionKey"), r.json.get("RowKey"), r.json.get("v")), (200, key, key, key), "get %r" % key[:20])
        r = w.filter(T, "PartitionKey eq '%s' and RowKey eq '%s'" % ((key.replace("'", "''"),) * 2))
        c.same([e["RowKey"] for e in r.json.get("value", [])], [key], "query %r" % key[:20])
        c.same(w.send("DELETE", at(T, key, key), headers={"If-Match": "*"}).status, 204, "delete %r" % key[:20])
    for key in ("a/b", "a\\b", "a#b", "a?b", "a\tb", "a\nb", "a\x7fb", "a\x85b"):
        r = w.insert(T, {"PartitionKey": key, "RowKey": "r"})
        c.reply(r, 400, "OutOfRangeInput")
        c.reply(w.insert(T, {"PartitionKey": "p", "RowKey": key}), 400, "OutOfRangeInput")
    for pk, rk in (("k" * 513, "r"), ("p", "ü" * 513)):
        c.reply(w.insert(T, {"PartitionKey": pk, "RowKey": rk}), 400, "KeyValueTooLarge")
    for body in ({"RowKey": "r"}, {"PartitionKey": "p"}, {"PartitionKey": None, "RowKey": "r"}):
        c.reply(w.insert(T, body), 400, "PropertiesNeedValue")
    c.reply(w.insert(T, {"PartitionKey": 1, "RowKey": "r"}), 400)


def updates(c):
    def put(method, rk, entity, match=None, **kw):
        return w.send(method, at(T, "u", rk), body=dict({"PartitionKey": "u", "RowKey": rk}, **entity), headers={"If-Match": match}, **kw)

    def props(rk):
        return {k: v for k, v in w.get(T, "u", rk, headers={"Accept": NONE}).json.items() if k not in ("PartitionKey", "RowKey", "Timestamp")}

    r = put("PUT", "a", {"x": 1, "y": 2})
    c.reply(r, 204, headers={**DATA, "etag": is_etag, "content-length": NO_BODY}, absent=["content-type", "preference-applied"])
    first = r.headers["etag"]
    r = put("PATCH", "a", {"y": 3, "z": 4})
    c.reply(r, 204, headers={**DATA, "etag": lambda v: is_etag(v) and v != first, "content-length": NO_BODY})
    c.same(props("a"), {"x": 1, "y": 3, "z": 4}, "merged")
    second = r.headers["etag"]
    c.reply(put("PUT", "a", {"w": 5}, first), 412, "UpdateConditionNotSatisfied", DATA)
    c.reply(put("PATCH", "a", {"w": 5}, first), 412, "UpdateConditionNotSatisfied", DATA)
    c.same(props("a"), {"x": 1, "y": 3, "z": 4}, "nothing was done")
    r = put("PUT", "a", {"w": 5}, second)
    c.reply(r, 204, headers={"etag": is_etag})
    c.same(props("a"), {"w": 5}, "replaced")
    r = put("MERGE", "a", {"v": 6}, "*")
    c.reply(r, 204, headers={"etag": is_etag})
    r = w.send("POST", at(T, "u", "a"), body={"u": 7}, headers={"If-Match": "*", "X-HTTP-Method": "MERGE"})
    c.reply(r, 204, headers={"etag": is_etag})
    c.same(props("a"), {"w": 5, "v": 6, "u": 7}, "merged by two methods")
    for method in ("PUT", "PATCH", "MERGE"):
        c.reply(put(method, "none", {"x": 1}, "*"), 404, "ResourceNotFound", DATA)
        c.reply(put(method, "none", {"x": 1}, first), 404, "ResourceNotFound")
        c.reply(put(method, "a", {"x": 1}, "rubbish"), 400, "InvalidInput")
    c.same(w.get(T, "u", "none").status, 404, "no update made an entity")
    r = w.send("PUT", at(T, "u", "a"), body={"PartitionKey": "other", "RowKey": "a", "x": 1})
    c.true(r.status == 204 and w.get(T, "other", "a").status == 404 or r.status == 400, "the URL says which entity: %d" % r.status)
    c.same(put("PATCH", "b", {"gone": 1, "kept": None}).status, 204, "null is no property")
    c.same(props("b"), {"gone": 1}, "no null")
    put("PATCH", "b", {"gone": "now a text"})
    c.same(props("b"), {"gone": "now a text"}, "a property changes its type")
    put("PATCH", "b", {"gone@odata.type": "Edm.Int64", "gone": "5"})
    c.same(w.get(T, "u", "b").json.get("gone@odata.type"), "Edm.Int64", "and again")


def deletes(c):
    for rk in "abc":
        w.insert(T, {"PartitionKey": "d", "RowKey": rk})
    etag = w.get(T, "d", "a").headers["etag"]
    c.reply(w.send("DELETE", at(T, "d", "a")), 400)
    c.reply(w.send("DELETE", at(T, "d", "a"), headers={"If-Match": etag.replace("20", "19", 1)}), 412, "UpdateConditionNotSatisfied", DATA)
    c.reply(w.send("DELETE", at(T, "d", "a"), headers={"If-Match": etag}), 204, headers={**DATA, "content-length": NO_BODY}, absent=["etag"])
    c.reply(w.send("DELETE", at(T, "d", "a"), headers={"If-Match": "*"}), 404, "ResourceNotFound", DATA)
    c.reply(w.send("POST", at(T, "d", "b"), headers={"If-Match": "*", "X-HTTP-Method": "DELETE"}), 204)
    c.same([e["RowKey"] for e in w.filter(T, "PartitionKey eq 'd'").json["value"]], ["c"], "the one that is left")
    w.send("DELETE", at(T, "d", "c"), headers={"If-Match": "*"})
    c.reply(w.insert(T, {"PartitionKey": "d", "RowKey": "c", "new": True}), 201)
    c.same(w.get(T, "d", "c", headers={"Accept": NONE}).json.get("new"), True, "a key used again")


EDGES = [
    ("Edm.String", ["", " ", "Grüße 世界 𝄞", "\"\\/\b\f\n\r\t", "\u0000x", "null", "x" * 32768]),
    ("Edm.Binary", ["", "AA==", "/+8=", "QUJD" * 16384]),
    ("Edm.Boolean", [True, False]),
    ("Edm.DateTime", ["1601-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "2021-05-26T15:48:07.0454448Z", "2021-05-26T15:48:07.5Z", "9999-12-31T23:59:59.9999999Z"]),
    ("Edm.Double", [0.0, -0.5, 1e300, 5e-324, 1.7976931348623157e308, 123456789.125, "NaN", "Infinity", "-Infinity"]),
    ("Edm.Guid", ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "01234567-89ab-cdef-0123-456789abcdef"]),
    ("Edm.Int32", [0, -1, 2147483647, -2147483648]),
    ("Edm.Int64", ["0", "-1", "9223372036854775807", "-9223372036854775808"]),
]


def types(c):
    for edm, values in EDGES:
        name = edm[4:]
        for i, v in enumerate(values):
            rk = "%s%d" % (name, i)
            r = w.insert(T, {"PartitionKey": "types", "RowKey": rk, "v@odata.type": edm, "v": v})
            got = w.get(T, "types", rk).json
            c.same((r.status, got.get("v")), (201, v), "%s %r" % (edm, str(v)[:40]))
            if edm not in ("Edm.String", "Edm.Boolean", "Edm.Int32", "Edm.Double") or v in ("NaN", "Infinity", "-Infinity"):
                c.same(got.get("v@odata.type"), edm, "the type of %s" % rk)
    r = w.insert(T, {"PartitionKey": "types", "RowKey": "offset", "v@odata.type": "Edm.DateTime", "v": "2020-01-01T02:00:00+02:00"})
    c.same(r.json.get("v"), "2020-01-01T00:00:00Z", "an offset becomes UTC")


def bad_values(c):
    def bad(value, edm=None, code="InvalidInput"):
        e = {"PartitionKey": "bad", "RowKey": "r", "v": value}
        if edm:
            e["v@odata.type"] = edm
        c.reply(w.insert(T, e), 400, code)

    for v in ("x", "2020-13-01T00:00:00Z", "1600-12-31T23:59:59Z", ""):
        bad(v, "Edm.DateTime", None if v.startswith("1600") else "InvalidInput")
    for v in ("x", "c9da6455-213d-42c9-9a79", ""):
        bad(v, "Edm.Guid")
    for v in ("9223372036854775808", "x", "1.5", ""):
        bad(v, "Edm.Int64")
    bad(2147483648, "Edm.Int32")
    bad("***", "Edm.Binary")
    bad("x", "Edm.Boolean")
    bad("x", "Edm.Double")
    bad("x", "Edm.Nonsense")
    bad([1], None)
    bad({"a": 1}, None)
    for body in ("{", "[]", "nonsense", '{"PartitionKey":"p" "RowKey":"r"}', '{"PartitionKey":"p","RowKey":"r",}'):
        c.reply(w.send("POST", "/" + T, body=body), 400, "InvalidInput")
    c.same(w.get(T, "bad", "r").status, 404, "nothing bad was kept")


def limits(c):
    def entity(**kw):
        return dict({"PartitionKey": "limits", "RowKey": "r"}, **kw)

    c.reply(w.insert(T, entity(RowKey="252", **{"p%d" % i: i for i in range(252)})), 201)
    c.same(len(w.get(T, "limits", "252", headers={"Accept": NONE}).json), 255, "252 properties and three")
    c.reply(w.insert(T, entity(**{"p%d" % i: i for i in range(253)})), 400, "TooManyProperties")
    c.reply(w.send("PATCH", at(T, "limits", "252"), body={"one": 1}), 400, "TooManyProperties")
    c.reply(w.insert(T, entity(RowKey="name255", **{"n" * 255: 1})), 201)
    c.reply(w.insert(T, entity(**{"n" * 256: 1})), 400, "PropertyNameTooLong")
    for name in ("a-b", "1a", "a b", "a.b", "<x>"):
        c.reply(w.insert(T, entity(**{name: 1})), 400, "PropertyNameInvalid")
    for name in ("_x", "größe", "A1", "a_b", "状況"):
        c.reply(w.insert(T, entity(RowKey="name" + name, **{name: 1})), 201)
        c.same(w.get(T, "limits", "name" + name, headers={"Accept": NONE}).json.get(name), 1, "property " + name)
    c.reply(w.insert(T, entity(v="x" * 32769)), 400, "PropertyValueTooLarge")
    c.reply(w.insert(T, entity(**{"v@odata.type": "Edm.Binary", "v": "QUJD" * 21846})), 400, "PropertyValueTooLarge")
    c.reply(w.insert(T, entity(RowKey="big", **{"b%d" % i: "x" * 32000 for i in range(16)})), 201)
    c.reply(w.insert(T, entity(**{"b%d" % i: "x" * 32768 for i in range(17)})), 400, "EntityTooLarge")
    c.reply(w.send("PATCH", at(T, "limits", "big"), body={"more%d" % i: "x" * 32768 for i in range(2)}), 400, "EntityTooLarge")
    c.same(w.get(T, "limits", "r").status, 404, "nothing beyond a limit was kept")
    c.same(len(w.get(T, "limits", "big", headers={"Accept": NONE}).json), 19, "nothing was merged")
    c.reply(w.insert(T, entity(RowKey="case", a=1, A=2)), 201)
    got = w.get(T, "limits", "case", headers={"Accept": NONE}).json
    c.same((got.get("a"), got.get("A")), (1, 2), "names differ by case")
    c.reply(w.send("POST", "/" + T, body='{"PartitionKey":"p","RowKey":"twice","a":1,"a":2}'), 400)
    r = w.insert(T, entity(RowKey="stamp", Timestamp="1999-01-01T00:00:00Z"))
    c.true(r.status == 201 and not r.json["Timestamp"].startswith("1999"), "Timestamp is the server's")


def verbs(c):
    for method, path in (("PUT", "/" + T), ("PATCH", "/Tables"), ("DELETE", "/" + T + "()"), ("POST", at(T, "p", "all"))):
        r = w.send(method, path, body={"x": 1} if method != "DELETE" else b"")
        c.true(400 <= r.status < 500, "%s %s: %d" % (method, path, r.status))
    for path in ("/%s(PartitionKey='p')" % T, "/%s(RowKey='r')" % T, "/%s(PartitionKey='p',RowKey='r'" % T, "/%s(PartitionKey='p',RowKey=r)" % T):
        r = w.send("GET", path)
        c.true(r.status in (400, 404, 405), "GET %s: %d" % (path, r.status))
    r = w.send("GET", at(T, "p", "all"), headers={"x-ms-client-request-id": "mine-1"})
    c.reply(r, 200, headers={"x-ms-request-id": bool, "x-ms-client-request-id": "mine-1"})
    r = w.send("GET", at(T, "p", "all"), headers={"x-ms-version": "2020-12-06"})
    c.reply(r, 200, headers={"x-ms-version": "2020-12-06"})
    c.reply(w.send("GET", at(T, "p", "all"), headers={"Accept": "application/atom+xml"}), 415, None)
    c.reply(w.send("GET", at(T, "p", "all"), "$format=application/json;odata=nometadata"), 200, headers={"content-type": NONE + STREAM})


GROUPS = [setup, insert_and_get, prefer, odd_keys, updates, deletes, types, bad_values, limits, verbs]
