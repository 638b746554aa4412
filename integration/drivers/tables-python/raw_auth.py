"""Who may do what: SharedKey, SharedKeyLite, SAS of account and table, key ranges, stored policies."""

import base64
import email.utils
import hashlib
import json
import time

from checks import ACCOUNT, PREFIX
from raw_tables import acl, identifier
from wire import MINIMAL, Wire, account_sas, at, batch, quote, stamp, table_sas

w = Wire()
T, U = PREFIX + "Auth", PREFIX + "AuthOther"
FRONT = {"x-ms-error-code": "AuthenticationFailed"}


def setup(c):
    for t in (T, U):
        w.create(t)
        for pk in "abcde":
            for rk in "123":
                c.same(w.insert(t, {"PartitionKey": pk, "RowKey": rk}).status, 201, "load")


def signatures(c):
    c.reply(w.get(T, "a", "1", auth="lite"), 200)
    c.reply(w.insert(T, {"PartitionKey": "lite", "RowKey": "r"}, auth="lite"), 201)
    c.reply(w.send("GET", "/" + T, "comp=acl", auth="lite"), 200)
    c.reply(w.send("GET", at(T, "a", "1"), headers={"x-ms-date": None, "Date": email.utils.formatdate(usegmt=True)}), 200)
    c.reply(w.send("GET", at(T, "a", "1"), headers={"x-ms-date": None, "Date": email.utils.formatdate(usegmt=True)}, auth="lite"), 200)
    body = json.dumps({"PartitionKey": "md5", "RowKey": "r"})
    sums = [base64.b64encode(hashlib.md5(text.encode()).digest()).decode() for text in (body, "")]
    c.reply(w.insert(T, body, headers={"Content-MD5": sums[1]}), 400, "Md5Mismatch")
    c.reply(w.insert(T, body, headers={"Content-MD5": "short"}), 400, "InvalidMd5")
    c.same(w.get(T, "md5", "r").status, 404, "nothing was written")
    c.reply(w.insert(T, body, headers={"Content-MD5": sums[0]}), 201)
    r = w.get(T, "a", "1", auth="none")
    c.true(r.status in (401, 403, 404) and r.headers.get("x-ms-error-code"), "no signature: %d" % r.status)
    wrong = Wire(key="AAAA" * 21 + "AA==")
    for auth in ("key", "lite"):
        r = wrong.get(T, "a", "1", auth=auth)
        c.reply(r, 403, "AuthenticationFailed", FRONT)
        c.true("odata.error" in r.text and "RequestId:" in r.text, "the body says so, too")
    r = wrong.insert(T, {"PartitionKey": "wrong", "RowKey": "r"})
    c.reply(r, 403, "AuthenticationFailed")
    c.same(w.get(T, "wrong", "r").status, 404, "nothing was written")
    for old in (-1800, 1800):
        c.reply(w.get(T, "a", "1", date=email.utils.formatdate(time.time() + old, usegmt=True)), 403, "AuthenticationFailed", FRONT)
    c.reply(w.send("GET", at(T, "a", "1"), headers={"x-ms-date": None}), 403, "AuthenticationFailed")
    for value in ("SharedKey", "SharedKey x", "SharedKey %s:" % ACCOUNT, "Nonsense %s:AAAA" % ACCOUNT, "SharedKey other:AAAA"):
        r = w.send("GET", at(T, "a", "1"), headers={"Authorization": value}, auth="none")
        c.true(r.status in (400, 401, 403, 404), "Authorization: %s: %d" % (value, r.status))
    r = Wire(account="nobody").get(T, "a", "1")
    c.true(r.status in (400, 403, 404), "an account that is not there: %d" % r.status)


def account_signatures(c):
    c.reply(w.get(T, "a", "1", auth=account_sas()), 200)
    c.reply(w.get(T, "a", "1", auth=account_sas(version="2018-03-28")), 200)
    c.reply(w.get(T, "a", "1", auth=account_sas(types="o")), 200)
    c.reply(w.filter(T, "PartitionKey eq 'a'", auth=account_sas("r", types="o")), 200)
    c.reply(w.send("GET", "/Tables", auth=account_sas("rl", types="c")), 200)
    c.reply(w.create(PREFIX + "BySas", auth=account_sas("racwud")), 201)
    c.reply(w.drop(PREFIX + "BySas", auth=account_sas("d", types="c")), 204)
    c.reply(w.insert(T, {"PartitionKey": "sas", "RowKey": "r"}, auth=account_sas("a")), 201)
    c.reply(w.send("PUT", at(T, "sas", "r"), body={"v": 1}, headers={"If-Match": "*"}, auth=account_sas("u")), 204)
    c.reply(w.send("DELETE", at(T, "sas", "r"), headers={"If-Match": "*"}, auth=account_sas("d")), 204)
    c.reply(w.send("GET", "/", "restype=service&comp=properties", auth=account_sas("r", types="s")), 200)
    for what, sas, code in (("expired", account_sas(expiry=stamp(-60)), "AuthenticationFailed"), ("not yet", account_sas(start=stamp(600), expiry=stamp(900)), "AuthenticationFailed"),
                            ("another key", account_sas(key="AAAA" * 21 + "AA=="), "AuthenticationFailed"), ("another service", account_sas(services="b"), "AuthorizationServiceMismatch"),
                            ("no object", account_sas(types="s"), "AuthorizationResourceTypeMismatch"), ("https only", account_sas(protocol="https"), None),
                            ("another address", account_sas(ip="10.1.1.1"), None), ("changed", account_sas("r").replace("sp=r", "sp=rw"), "AuthenticationFailed")):
        r = w.get(T, "a", "1", auth=sas)
        c.reply(r, 403, code)
        c.true(r.headers.get("x-ms-error-code") or r.code, what + " says a code")
    c.reply(w.get(T, "a", "1", auth=account_sas(ip="127.0.0.0-127.255.255.255")), 200)
    c.reply(w.get(T, "a", "1", auth=account_sas(protocol="https,http")), 200)
    for what, r in (("insert", w.insert(T, {"PartitionKey": "x", "RowKey": "y"}, auth=account_sas("r"))), ("get", w.get(T, "a", "1", auth=account_sas("a"))),
                    ("delete", w.send("DELETE", at(T, "a", "1"), headers={"If-Match": "*"}, auth=account_sas("rau"))), ("drop", w.drop(T, auth=account_sas("rl")))):
        c.reply(r, 403, "AuthorizationPermissionMismatch")
    c.same(w.get(T, "a", "1").status, 200, "all is there still")


def table_signatures(c):
    c.reply(w.get(T, "a", "1", auth=table_sas(T)), 200)
    c.reply(w.get(T, "a", "1", auth=table_sas(T.lower())), 200)
    c.reply(w.filter(T, "PartitionKey eq 'a'", auth=table_sas(T)), 200)
    r = w.insert(T, {"PartitionKey": "sas", "RowKey": "r"}, auth=table_sas(T, "a"))
    c.reply(r, 201)
    c.reply(w.send("PATCH", at(T, "sas", "r"), body={"v": 1}, headers={"If-Match": "*"}, auth=table_sas(T, "u")), 204)
    c.reply(w.send("PATCH", at(T, "sas", "new"), body={"v": 1}, auth=table_sas(T, "au")), 204)
    c.reply(w.send("DELETE", at(T, "sas", "r"), headers={"If-Match": "*"}, auth=table_sas(T, "d")), 204)
    r = batch(w, T, [("POST", None, {"PartitionKey": "sas", "RowKey": "b%d" % i}, {}) for i in range(3)], auth=table_sas(T, "a"))
    c.same(getattr(r, "statuses", r), [204] * 3, "a batch with a table's SAS")
    for what, sas, code in (("expired", table_sas(T, expiry=stamp(-60)), "AuthenticationFailed"), ("not yet", table_sas(T, start=stamp(600), expiry=stamp(900)), "AuthenticationFailed"),
                            ("another key", table_sas(T, key="AAAA" * 21 + "AA=="), "AuthenticationFailed"), ("changed", table_sas(T).replace("sp=r", "sp=raud"), "AuthenticationFailed"),
                            ("no signature", table_sas(T).split("&sig=")[0], None), ("another table", table_sas(U), None)):
        r = w.get(T, "a", "1", auth=sas)
        c.reply(r, 403, code)
    for what, r in (("insert", w.insert(T, {"PartitionKey": "x", "RowKey": "y"}, auth=table_sas(T))), ("get", w.get(T, "a", "1", auth=table_sas(T, "a"))),
                    ("update", w.send("PUT", at(T, "a", "1"), body={}, headers={"If-Match": "*"}, auth=table_sas(T, "ra"))), ("delete", w.send("DELETE", at(T, "a", "1"), headers={"If-Match": "*"}, auth=table_sas(T, "rau")))):
        c.reply(r, 403, "AuthorizationPermissionMismatch")
    for what, r in (("tables", w.send("GET", "/Tables", auth=table_sas(T, "raud"))), ("drop", w.drop(T, auth=table_sas(T, "raud"))), ("acl", w.send("GET", "/" + T, "comp=acl", auth=table_sas(T, "raud"))),
                    ("properties", w.send("GET", "/", "restype=service&comp=properties", auth=table_sas(T, "raud")))):
        c.same(r.status, 403, "a table's SAS is not for " + what)


def key_ranges(c):
    some = table_sas(T, "raud", keys=("b", "", "c", ""))
    for pk, status in (("a", 404), ("b", 200), ("c", 200), ("d", 404)):
        r = w.get(T, pk, "2", auth=some)
        c.true(r.status == status or status == 404 and r.status == 403, "get of %s: %d" % (pk, r.status))
    c.same(sorted({e["PartitionKey"] for e in w.query(T, auth=some).json["value"]}), ["b", "c"], "a query sees the range alone")
    for pk, status in (("a", 403), ("b", 201), ("d", 403)):
        c.reply(w.insert(T, {"PartitionKey": pk, "RowKey": "range"}, auth=some), status, "AuthorizationFailure" if status == 403 else None)
    c.reply(w.send("DELETE", at(T, "b", "range"), headers={"If-Match": "*"}, auth=some), 204)
    c.reply(w.send("DELETE", at(T, "d", "2"), headers={"If-Match": "*"}, auth=some), 403, "AuthorizationFailure")
    rows = table_sas(T, "ra", keys=("b", "2", "c", "2"))
    got = [(e["PartitionKey"], e["RowKey"]) for e in w.query(T, auth=rows).json["value"]]
    c.same(got, [("b", "2"), ("b", "3"), ("c", "1"), ("c", "2")], "from b,2 to c,2")
    c.same(w.insert(T, {"PartitionKey": "c", "RowKey": "20"}, auth=rows).status, 403, "behind the end")
    c.same(w.insert(T, {"PartitionKey": "b", "RowKey": "1x"}, auth=rows).status, 403, "before the beginning")
    r = batch(w, T, [("POST", None, {"PartitionKey": "d", "RowKey": "b"}, {})], auth=some)
    c.true(r.status == 403 if hasattr(r, "status") else r.parts[0][0] == 403, "a batch beyond the range")
    changed = some.replace("epk=c", "epk=e")
    c.reply(w.get(T, "d", "2", auth=changed), 403, "AuthenticationFailed")


def stored(c):
    t = PREFIX + "Stored"
    w.create(t)
    w.insert(t, {"PartitionKey": "p", "RowKey": "r"})
    c.same(acl(t, identifier("read", stamp(-60), stamp(600), "r") + identifier("old", stamp(-600), stamp(-60), "r") + identifier("bare")).status, 204, "policies")
    by = lambda name, **kw: table_sas(t, kw.pop("permissions", ""), expiry=kw.pop("expiry", ""), identifier=name, **kw)
    c.reply(w.get(t, "p", "r", auth=by("read")), 200)
    c.reply(w.insert(t, {"PartitionKey": "p", "RowKey": "x"}, auth=by("read")), 403, "AuthorizationPermissionMismatch")
    c.reply(w.get(t, "p", "r", auth=by("old")), 403, "AuthenticationFailed")
    c.reply(w.get(t, "p", "r", auth=by("nothing")), 403, "AuthenticationFailed")
    c.reply(w.get(t, "p", "r", auth=by("bare", permissions="r", expiry=stamp(600))), 200)
    c.same(acl(t, identifier("read", stamp(-60), stamp(600), "a")).status, 204, "other permissions")
    c.reply(w.get(t, "p", "r", auth=by("read")), 403, "AuthorizationPermissionMismatch")
    c.reply(w.insert(t, {"PartitionKey": "p", "RowKey": "x"}, auth=by("read")), 201)
    c.same(acl(t, "").status, 204, "revoked")
    c.reply(w.insert(t, {"PartitionKey": "p", "RowKey": "y"}, auth=by("read")), 403, "AuthenticationFailed")


GROUPS = [setup, signatures, account_signatures, table_signatures, key_ranges, stored]
