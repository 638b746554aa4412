"""Entity group transactions."""

import json

from checks import PREFIX
from wire import MINIMAL, NONE, STREAM, BatchReply, Wire, at, batch, batch_body

w = Wire()
T = PREFIX + "Batches"


def e(rk, pk="p", **props):
    return dict({"PartitionKey": pk, "RowKey": rk}, **props)


def count(pk="p"):
    return len(w.filter(T, "PartitionKey eq '%s'" % pk).json["value"])


def all_kinds(c):
    w.create(T)
    for rk in ("merge", "update", "delete"):
        w.insert(T, e(rk, a=1))
    etag = w.get(T, "p", "update").headers["etag"]
    r = batch(w, T, [("POST", None, e("new", a=1), {}), ("PATCH", ("p", "merge"), {"b": 2}, {"If-Match": "*"}), ("PUT", ("p", "update"), {"c": 3}, {"If-Match": etag}),
                     ("DELETE", ("p", "delete"), None, {"If-Match": "*"}), ("PATCH", ("p", "upsert1"), {"d": 4}, {}), ("PUT", ("p", "upsert2"), {"e": 5}, {})])
    c.reply(r.reply, 202, headers={"content-type": lambda v: v and v.startswith("multipart/mixed; boundary=batchresponse_"), "cache-control": "no-cache", "x-content-type-options": "nosniff", "x-ms-version": "2019-02-02"})
    c.same(r.statuses, [204] * 6, "each answer")
    first = r.parts[0][1]
    for h, want in (("preference-applied", "return-no-content"), ("x-content-type-options", "nosniff"), ("cache-control", "no-cache"), ("location", w.base + at(T, "p", "new")), ("dataserviceid", w.base + at(T, "p", "new"))):
        c.same(first.get(h), want, "part 1: " + h)
    c.true(first.get("dataserviceversion", "").startswith("3.0"), "part 1: DataServiceVersion")
    for i in (0, 1, 2, 4, 5):
        c.true(r.parts[i][1].get("etag", "").startswith("W/\"datetime'"), "part %d has an etag" % (i + 1))
    c.true("etag" not in r.parts[3][1], "a delete has none")
    c.same(w.get(T, "p", "new").headers["etag"], first.get("etag"), "the etag is the entity's")
    got = {x["RowKey"]: {k: v for k, v in x.items() if k in "abcde"} for x in w.filter(T, "PartitionKey eq 'p'", headers={"Accept": NONE}).json["value"]}
    c.same(got, {"new": {"a": 1}, "merge": {"a": 1, "b": 2}, "update": {"c": 3}, "upsert1": {"d": 4}, "upsert2": {"e": 5}}, "what is there")


def content(c):
    r = batch(w, T, [("POST", None, e("body1", "c", a=1), {}), ("POST", None, e("body2", "c", a=2), {})], prefer="return-content")
    c.same(r.statuses, [201, 201], "with content")
    c.same(r.parts[0][1].get("content-type"), MINIMAL + STREAM, "its type")
    c.same(json.loads(r.parts[1][2]).get("a"), 2, "its body")
    c.same(r.parts[0][1].get("preference-applied"), "return-content", "preference")
    r = batch(w, T, [("POST", None, e("body3", "c", a=1), {})], prefer=None)
    c.same(r.statuses, [201], "content when nothing was preferred")
    b = "batch_q"
    body = "--%s\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nGET https://x%s HTTP/1.1\r\nAccept: %s\r\nHost: x\r\n\r\n\r\n--%s--\r\n" % (b, at(T, "c", "body1"), MINIMAL, b)
    r = w.send("POST", "/$batch", body=body, headers={"Content-Type": "multipart/mixed; boundary=" + b})
    c.same(r.status, 202, "a batch of one query")
    if r.status == 202:
        parts = BatchReply(r).parts
        c.same([p[0] for p in parts], [200], "its answer")
        c.same(json.loads(parts[0][2]).get("a"), 1, "its entity")


def sizes(c):
    def hundred(pk, n, **props):
        return [("POST", None, e("r%03d" % i, pk, **props), {}) for i in range(n)]

    r = batch(w, T, hundred("hundred", 100))
    c.same(r.statuses, [204] * 100, "a hundred")
    r = batch(w, T, hundred("more", 101))
    c.same((len(r.parts), r.parts[0][0], r.error), (1, 400, ("InvalidInput", "99:The batch request operation exceeds the maximum 100 changes per change set.")), "a hundred and one")
    c.same(count("more"), 0, "none of them")
    r = batch(w, T, hundred("large", 100, v="x" * 20000))
    c.same(r.statuses, [204] * 100, "two million bytes")
    r = batch(w, T, hundred("huge", 100, v="x" * 32000, u="y" * 12000))
    status = r.status if not isinstance(r, BatchReply) else r.parts[0][0]
    code = r.code if not isinstance(r, BatchReply) else r.error[0]
    c.true((status, code) in ((413, "RequestBodyTooLarge"), (400, "ContentLengthExceeded")), "more than 4 MiB: %s %s" % (status, code))
    c.same(count("huge"), 0, "none of them")
    content_type, body = batch_body(w, T, [])
    c.true(w.send("POST", "/$batch", body=body, headers={"Content-Type": content_type}).status in (202, 400), "an empty batch is no accident")


def refused(c):
    """Each of these does nothing at all."""
    w.insert(T, e("there", "r", v=1))
    etag = w.get(T, "r", "there").headers["etag"]
    fill = [("POST", None, e("fill%d" % i, "r"), {}) for i in range(2)]
    for what, change, status, code, message in (
        ("an insert of what is there", ("POST", None, e("there", "r"), {}), 409, "EntityAlreadyExists", "2:The specified entity already exists."),
        ("an update of nothing", ("PUT", ("r", "none"), {"v": 1}, {"If-Match": "*"}), 404, "ResourceNotFound", "2:The specified resource does not exist."),
        ("a merge of nothing", ("PATCH", ("r", "none"), {"v": 1}, {"If-Match": "*"}), 404, "ResourceNotFound", None),
        ("a delete of nothing", ("DELETE", ("r", "none"), None, {"If-Match": "*"}), 404, "ResourceNotFound", None),
        ("an old etag", ("PUT", ("r", "there"), {"v": 2}, {"If-Match": etag.replace("20", "19", 1)}), 412, "UpdateConditionNotSatisfied", None),
        ("a delete with an old etag", ("DELETE", ("r", "there"), None, {"If-Match": etag.replace("20", "19", 1)}), 412, "UpdateConditionNotSatisfied", None),
        ("a row twice", ("POST", None, e("fill0", "r"), {}), 400, "InvalidDuplicateRow", None),
        ("another partition", ("POST", None, e("x", "other"), {}), 400, "CommandsInBatchActOnDifferentPartitions", "2:All commands in a batch must operate on same entity group."),
        ("a bad key", ("POST", None, e("a/b", "r"), {}), 400, "OutOfRangeInput", None),
        ("a bad value", ("POST", None, e("x", "r", **{"v@odata.type": "Edm.Guid", "v": "?"}), {}), 400, "InvalidInput", None),
        ("a bad name", ("POST", None, e("x", "r", **{"a-b": 1}), {}), 400, "PropertyNameInvalid", None),
        ("no key", ("POST", None, {"RowKey": "x"}, {}), 400, "PropertiesNeedValue", None),
    ):
        r = batch(w, T, fill + [change])
        if not isinstance(r, BatchReply):
            c.true(False, "%s: %d %s" % (what, r.status, r.code))
            continue
        c.same((len(r.parts), r.parts[0][0], r.error[0]), (1, status, code), what)
        if message:
            c.same(r.error[1], message, what + ": message")
        c.same(count("r"), 1, what + ": nothing was done")
    c.same(w.get(T, "r", "there").headers["etag"], etag, "unchanged")
    r = batch(w, PREFIX + "Nothing", fill)
    c.same((r.parts[0][0], r.error), (404, ("TableNotFound", "0:The table specified does not exist.")), "no table")
    for body in (b"", b"rubbish", b"--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n"):
        r = w.send("POST", "/$batch", body=body, headers={"Content-Type": "multipart/mixed; boundary=b"})
        c.true(r.status == 400 or r.status == 202 and 400 <= BatchReply(r).parts[0][0] < 500, "bad body: %d" % r.status)
    c.same(w.send("POST", "/$batch", body=b"{}", headers={"Content-Type": "application/json"}).status in (400, 415), True, "not multipart")


def hosts(c):
    for host in ("other.table.core.windows.net", w.host, w.host + "/" + w.account):
        r = batch(w, T, [("POST", None, e("at " + str(len(host)), "hosts"), {})], host=host)
        c.same(r.statuses, [204], "a URL with " + host)


GROUPS = [all_kinds, content, sizes, refused, hosts]
