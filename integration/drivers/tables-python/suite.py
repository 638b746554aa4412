"""azure-data-tables against cqld: see ../README.md."""

import datetime
import re
import sys
import uuid

from azure.core import MatchConditions
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import (AccountSasPermissions, EdmType, EntityProperty, ResourceTypes, TableAccessPolicy, TableAnalyticsLogging, TableClient, TableCorsRule,
                               TableMetrics, TableRetentionPolicy, TableSasPermissions, TableServiceClient, TableTransactionError, TransactionOperation, UpdateMode, generate_account_sas, generate_table_sas)

import checks
from checks import ACCOUNT, ENDPOINTS, KEY, PREFIX

P = PREFIX + "Py"
CREDENTIAL = AzureNamedKeyCredential(ACCOUNT, KEY)
UTC = datetime.timezone.utc


def url(node=0):
    return ENDPOINTS[node % len(ENDPOINTS)] + "/" + ACCOUNT


def service(node=0):
    return TableServiceClient(endpoint=url(node), credential=CREDENTIAL, retry_total=2)


def client(table, node=0, credential=CREDENTIAL):
    return TableClient(endpoint=url(node), table_name=table, credential=credential, retry_total=2)


def raises(c, kind, code, what, call):
    """Checks that the call fails with the SDK's exception and the service's code; returns the exception."""
    try:
        call()
    except kind as e:
        # Of an insert the SDK gives the answer undecoded.
        found = re.search(r'"code":"(\w+)"', str(e))
        got = getattr(e, "error_code", None) or found and found.group(1)
        c.true(code is None or got == code, "%s: code %r, want %r" % (what, got, code))
        return e
    except Exception as e:
        c.true(False, "%s: %s instead of %s: %s" % (what, type(e).__name__, kind.__name__, str(e)[:200]))
        return None
    c.true(False, what + ": no error")


def tables(c):
    conn = "DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;TableEndpoint=%s;" % (ACCOUNT, KEY, url())
    s = TableServiceClient.from_connection_string(conn)
    names = sorted(P + "List%d" % i for i in range(4))
    for i, n in enumerate(names):
        t = service(i).create_table(n)
        c.same(t.table_name, n, "created at node %d" % i)
    found = [t.name for t in s.query_tables("TableName ge @a and TableName lt @b", parameters={"a": P + "List", "b": P + "Lisu"})]
    c.same(found, names, "query")
    c.true(set(names) <= {t.name for t in s.list_tables(results_per_page=2)}, "list in pages")
    e = raises(c, ResourceExistsError, "TableAlreadyExists", "create again", lambda: s.create_table(names[0]))
    c.same(e and e.status_code, 409, "status")
    c.same(s.create_table_if_not_exists(names[0]).table_name, names[0], "if not exists")
    for bad in ("1name", "a-b", "ab", "a" * 64):
        raises(c, ValueError, None, "name %r" % bad[:10], lambda: s.create_table(bad))
    for n in names:
        s.delete_table(n)
    c.same([t.name for t in s.query_tables("TableName ge '%sList' and TableName lt '%sLisu'" % (P, P))], [], "deleted")
    s.delete_table(names[0])  # the SDK says nothing of a table that is not there
    s.create_table(names[0])
    c.same(list(s.get_table_client(names[0]).list_entities()), [], "a name used again")


VALUES = {
    "text": "Grüße 世界 𝄞", "empty": "", "number": 2**31 - 1, "negative": -(2**31), "yes": True, "no": False, "ratio": 3.1, "tiny": 5e-324, "not_number": float("inf"),
    "large": EntityProperty(2**63 - 1, EdmType.INT64), "small": EntityProperty(-(2**63), EdmType.INT64), "data": b"\x00\xff binary", "no_data": b"",
    "id": uuid.UUID("c9da6455-213d-42c9-9a79-3e9149a57833"), "when": datetime.datetime(2021, 5, 26, 15, 48, 7, 45444, tzinfo=UTC), "old": datetime.datetime(1601, 1, 1, tzinfo=UTC),
}


def types(c):
    t = client(P + "Types")
    t.create_table()
    made = t.create_entity(dict(VALUES, PartitionKey="p", RowKey="r"))
    c.true(made["etag"].startswith("W/\"datetime'"), "etag")
    got = client(P + "Types", 1).get_entity("p", "r")
    for k, v in VALUES.items():
        c.same(got.get(k), v, k)
        c.same(type(got.get(k)), type(v) if not isinstance(v, datetime.datetime) else type(got.get(k)), k + "'s type")
    c.same(got.metadata["etag"], made["etag"], "etag of get")
    c.true(abs((datetime.datetime.now(UTC) - got.metadata["timestamp"]).total_seconds()) < 60, "timestamp")
    c.same(got["when"].tables_service_value[:26], "2021-05-26T15:48:07.045444", "a time's digits")
    t.create_entity({"PartitionKey": "p", "RowKey": "ticks", "v": ("2021-05-26T15:48:07.0454448Z", EdmType.DATETIME)})
    c.same(t.get_entity("p", "ticks")["v"].tables_service_value, "2021-05-26T15:48:07.0454448Z", "100 ns are kept")
    t.create_entity({"PartitionKey": "p", "RowKey": "none", "v": None})
    c.true("v" not in t.get_entity("p", "none"), "None is no property")
    c.same(set(t.get_entity("p", "r", select=["text", "number"])), {"text", "number"}, "select")
    for k, v in (("PartitionKey", None), ("RowKey", None)):
        e = {"PartitionKey": "x", "RowKey": "y", k: v}
        raises(c, ValueError, None, "no " + k, lambda: t.create_entity(e))
    raises(c, HttpResponseError, "PropertyNameTooLong", "a long name", lambda: t.create_entity({"PartitionKey": "x", "RowKey": "y", "n" * 256: 1}))
    raises(c, HttpResponseError, "TooManyProperties", "253 properties", lambda: t.create_entity(dict({"PartitionKey": "x", "RowKey": "y"}, **{"p%d" % i: i for i in range(253)})))
    raises(c, HttpResponseError, "PropertyValueTooLarge", "a long text", lambda: t.create_entity({"PartitionKey": "x", "RowKey": "y", "v": "x" * 32769}))
    raises(c, HttpResponseError, "EntityTooLarge", "a large entity", lambda: t.create_entity(dict({"PartitionKey": "x", "RowKey": "y"}, **{"p%d" % i: "x" * 32768 for i in range(17)})))
    raises(c, ResourceNotFoundError, "ResourceNotFound", "get of nothing", lambda: t.get_entity("x", "y"))
    raises(c, ResourceNotFoundError, "TableNotFound", "no table", lambda: client(P + "Nothing").create_entity({"PartitionKey": "x", "RowKey": "y"}))


def changes(c):
    t = client(P + "Changes")
    t.create_table()
    t.create_entity({"PartitionKey": "p", "RowKey": "r", "a": 1, "b": 2})
    raises(c, ResourceExistsError, "EntityAlreadyExists", "insert again", lambda: t.create_entity({"PartitionKey": "p", "RowKey": "r"}))
    first = t.get_entity("p", "r").metadata["etag"]
    t.update_entity({"PartitionKey": "p", "RowKey": "r", "b": 3, "c": 4}, mode=UpdateMode.MERGE)
    c.same(dict(t.get_entity("p", "r")), {"PartitionKey": "p", "RowKey": "r", "a": 1, "b": 3, "c": 4}, "merge")
    old = lambda call, **kw: raises(c, ResourceModifiedError, "UpdateConditionNotSatisfied", "old etag", lambda: call(etag=first, match_condition=MatchConditions.IfNotModified, **kw))
    old(t.update_entity, entity={"PartitionKey": "p", "RowKey": "r"}, mode=UpdateMode.REPLACE)
    old(t.update_entity, entity={"PartitionKey": "p", "RowKey": "r"}, mode=UpdateMode.MERGE)
    old(t.delete_entity, entity={"PartitionKey": "p", "RowKey": "r"})
    new = t.get_entity("p", "r").metadata["etag"]
    r = t.update_entity({"PartitionKey": "p", "RowKey": "r", "only": 1}, mode=UpdateMode.REPLACE, etag=new, match_condition=MatchConditions.IfNotModified)
    c.same(dict(t.get_entity("p", "r")), {"PartitionKey": "p", "RowKey": "r", "only": 1}, "replace")
    c.same(t.get_entity("p", "r").metadata["etag"], r["etag"], "its etag")
    raises(c, ResourceNotFoundError, "ResourceNotFound", "update of nothing", lambda: t.update_entity({"PartitionKey": "p", "RowKey": "none"}))
    t.upsert_entity({"PartitionKey": "p", "RowKey": "new", "a": 1}, mode=UpdateMode.MERGE)
    t.upsert_entity({"PartitionKey": "p", "RowKey": "new", "b": 2}, mode=UpdateMode.MERGE)
    c.same(dict(t.get_entity("p", "new")), {"PartitionKey": "p", "RowKey": "new", "a": 1, "b": 2}, "insert or merge")
    t.upsert_entity({"PartitionKey": "p", "RowKey": "new", "c": 3}, mode=UpdateMode.REPLACE)
    c.same(dict(t.get_entity("p", "new")), {"PartitionKey": "p", "RowKey": "new", "c": 3}, "insert or replace")
    t.delete_entity("p", "new")
    raises(c, ResourceNotFoundError, "ResourceNotFound", "deleted", lambda: t.get_entity("p", "new"))
    t.delete_entity("p", "new")  # the SDK says nothing of an entity that is not there


def transactions(c):
    t = client(P + "Batch")
    t.create_table()
    for rk in ("merge", "replace", "delete"):
        t.create_entity({"PartitionKey": "p", "RowKey": rk, "a": 1})
    op, e = TransactionOperation, lambda rk, **kw: dict({"PartitionKey": "p", "RowKey": rk}, **kw)
    r = t.submit_transaction([(op.CREATE, e("new", v=1)), (op.UPDATE, e("merge", b=2)), (op.UPDATE, e("replace", c=3), {"mode": UpdateMode.REPLACE}), (op.DELETE, e("delete")), (op.UPSERT, e("upsert", d=4))])
    c.same(len(r), 5, "five answers")
    c.true(all("etag" in x for i, x in enumerate(r) if i != 3), "etags")
    c.same({x["RowKey"]: {k: v for k, v in x.items() if len(k) == 1} for x in t.list_entities()}, {"new": {"v": 1}, "merge": {"a": 1, "b": 2}, "replace": {"c": 3}, "upsert": {"d": 4}}, "what is there")
    t.submit_transaction([(op.UPSERT, {"PartitionKey": "many", "RowKey": "r%03d" % i, "v": i}) for i in range(100)])
    c.same(sum(1 for _ in t.query_entities("PartitionKey eq 'many'")), 100, "a hundred")
    # The SDK tells a failure of the whole changeset by index 0, or by the number in front of the message.
    for what, ops, status, index in (
        ("insert of what is there", [(op.CREATE, e("x")), (op.CREATE, e("new"))], 409, 1),
        ("update of nothing", [(op.CREATE, e("x")), (op.UPSERT, e("y")), (op.UPDATE, e("none"))], 404, 2),
        ("a row twice", [(op.CREATE, e("x")), (op.UPSERT, e("x"))], 400, 1),
        ("101 operations", [(op.UPSERT, {"PartitionKey": "more", "RowKey": "r%03d" % i}) for i in range(101)], 400, 99),
        ("an old etag", [(op.CREATE, e("x")), (op.UPDATE, e("new", v=2), {"etag": "W/\"datetime'2001-01-01T00%3A00%3A00Z'\"", "match_condition": MatchConditions.IfNotModified})], 412, 1),
    ):
        err = raises(c, TableTransactionError, None, what, lambda: t.submit_transaction(ops))
        c.same((getattr(err, "status_code", None), getattr(err, "index", None)), (status, index), what)
    raises(c, ValueError, None, "two partitions are refused by the SDK", lambda: t.submit_transaction([(op.CREATE, e("x")), (op.CREATE, {"PartitionKey": "q", "RowKey": "x"})]))
    c.same(sorted(x["RowKey"] for x in t.query_entities("PartitionKey eq 'p'")), ["merge", "new", "replace", "upsert"], "none did anything")
    raises(c, HttpResponseError, None, "more than 4 MiB", lambda: t.submit_transaction([(op.CREATE, {"PartitionKey": "huge", "RowKey": "%d" % i, "v": "x" * 32000, "w": "y" * 12000}) for i in range(100)]))
    raises(c, TableTransactionError, "TableNotFound", "no table", lambda: client(P + "Nothing").submit_transaction([(op.CREATE, e("x"))]))


def queries(c):
    t = client(P + "Query")
    t.create_table()
    day = lambda n: datetime.datetime(2020, 1, n, tzinfo=UTC)
    for p in range(12):
        t.submit_transaction([(TransactionOperation.CREATE, {"PartitionKey": "p%02d" % p, "RowKey": "r%03d" % i, "n": p * 100 + i, "even": i % 2 == 0, "half": i / 2, "day": day(1 + i % 28),
                                                           "big": EntityProperty(2**40 + i, EdmType.INT64), "id": uuid.UUID(int=i), "data": bytes([i])}) for i in range(100)])
    n = lambda text, **kw: [x["n"] for x in client(P + "Query", 2).query_entities(text, **kw)]
    c.same([x["n"] for x in t.list_entities()], list(range(1200)), "all, over pages, in order")
    c.same(n("PartitionKey eq 'p03'"), list(range(300, 400)), "a partition")
    c.same(n("PartitionKey eq @p and RowKey ge @r", parameters={"p": "p03", "r": "r098"}), [398, 399], "parameters")
    c.same(n("PartitionKey ge 'p03' and PartitionKey lt 'p05'"), list(range(300, 500)), "partitions")
    c.same(n("n eq @n", parameters={"n": 777}), [777], "a number")
    c.same(n("big eq @big and n lt 100", parameters={"big": 2**40 + 7}), [7], "an Int64")
    c.same(n("id eq @id and n lt 200", parameters={"id": uuid.UUID(int=9)}), [9, 109], "a Guid")
    c.same(n("day eq @day and n lt 60", parameters={"day": day(3)}), [2, 30, 58], "a DateTime")
    c.same(n("data eq @data and n lt 100", parameters={"data": b"\x05"}), [5], "a Binary")
    c.same(n("even eq @yes and n lt 5", parameters={"yes": True}), [0, 2, 4], "a Boolean")
    c.same(n("half gt @half and n lt 100", parameters={"half": 48.5}), [98, 99], "a Double")
    pages = [len(list(p)) for p in t.query_entities("n ge 0", results_per_page=500).by_page()]
    c.same(pages, [500, 500, 200], "pages")
    walk = t.query_entities("n ge 0", results_per_page=400).by_page()
    first = [x["n"] for x in next(walk)]
    rest = [[x["n"] for x in p] for p in client(P + "Query", 3).query_entities("n ge 0", results_per_page=400).by_page(continuation_token=walk.continuation_token)]
    c.same((first, rest), (list(range(400)), [list(range(400, 800)), list(range(800, 1200))]), "a continuation token at another node")
    c.same([set(x) for x in t.query_entities("PartitionKey eq 'p00' and RowKey eq 'r001'", select=["n", "even"])], [{"n", "even"}], "select")
    e = raises(c, HttpResponseError, "InvalidInput", "no filter at all", lambda: list(t.query_entities("aaa bbb ccc")))
    c.same(e and e.status_code, 400, "status")


def signatures(c):
    t = client(P + "Sas")
    t.create_table()
    t.create_entity({"PartitionKey": "b", "RowKey": "r"})
    later = lambda s: datetime.datetime.now(UTC) + datetime.timedelta(seconds=s)
    by = lambda **kw: client(P + "Sas", 1, AzureSasCredential(generate_table_sas(CREDENTIAL, P + "Sas", **kw)))
    account = lambda **kw: AzureSasCredential(generate_account_sas(CREDENTIAL, **kw))
    read = by(permission=TableSasPermissions(read=True), expiry=later(600))
    c.same(read.get_entity("b", "r")["RowKey"], "r", "read")
    raises(c, HttpResponseError, "AuthorizationPermissionMismatch", "read only", lambda: read.create_entity({"PartitionKey": "b", "RowKey": "x"}))
    raises(c, ClientAuthenticationError, "AuthenticationFailed", "expired", lambda: by(permission=TableSasPermissions(read=True), expiry=later(-60), start=later(-600)).get_entity("b", "r"))
    some = by(permission=TableSasPermissions(read=True, add=True), expiry=later(600), start_pk="b", start_rk="", end_pk="c", end_rk="zz")
    some.create_entity({"PartitionKey": "c", "RowKey": "in"})
    raises(c, HttpResponseError, "AuthorizationFailure", "beyond the range", lambda: some.create_entity({"PartitionKey": "d", "RowKey": "out"}))
    s = TableServiceClient(endpoint=url(), credential=account(resource_types=ResourceTypes(service=True, object=True), permission=AccountSasPermissions(read=True, list=True), expiry=later(600)))
    c.true(s.get_service_properties() is not None, "account SAS")
    c.same(len(list(s.get_table_client(P + "Sas").list_entities())), 2, "account SAS reads")
    raises(c, ClientAuthenticationError, "AuthenticationFailed", "another key", lambda: client(P + "Sas", 0, AzureNamedKeyCredential(ACCOUNT, "AAAA" * 21 + "AA==")).get_entity("b", "r"))
    t.set_table_access_policy({"stored": TableAccessPolicy(start=later(-60), expiry=later(600), permission="r"), "none": None})
    got = t.get_table_access_policy()
    c.same((sorted(got), got["stored"].permission), (["none", "stored"], "r"), "policies")
    c.same(by(policy_id="stored").get_entity("b", "r")["RowKey"], "r", "a stored policy")
    raises(c, ValueError, None, "six policies", lambda: t.set_table_access_policy({"p%d" % i: None for i in range(6)}))
    t.set_table_access_policy({})
    c.same(t.get_table_access_policy(), {}, "none")
    raises(c, ClientAuthenticationError, "AuthenticationFailed", "revoked", lambda: by(policy_id="stored").get_entity("b", "r"))


def service_properties(c):
    s = service()
    keep = TableRetentionPolicy(enabled=True, days=5)
    s.set_service_properties(analytics_logging=TableAnalyticsLogging(read=True, write=True, delete=True, retention_policy=keep), hour_metrics=TableMetrics(enabled=True, include_apis=True, retention_policy=keep),
                             minute_metrics=TableMetrics(enabled=False), cors=[TableCorsRule(["www.xyz.com"], ["GET"]), TableCorsRule(["www.xyz.com", "www.ab.com"], ["GET", "PUT"], max_age_in_seconds=500, exposed_headers=["x-ms-meta-data*"], allowed_headers=["x-ms-meta-*"])])
    got = service(1).get_service_properties()
    log, rules = got["analytics_logging"], got["cors"]
    c.same((log.read, log.write, log.delete, log.retention_policy.enabled, log.retention_policy.days), (True, True, True, True, 5), "logging")
    c.same((got["hour_metrics"].enabled, got["hour_metrics"].include_apis, got["hour_metrics"].retention_policy.days, got["minute_metrics"].enabled), (True, True, 5, False), "metrics")
    c.same([(r.allowed_origins, r.allowed_methods, r.max_age_in_seconds) for r in rules], [(["www.xyz.com"], ["GET"], 0), (["www.xyz.com", "www.ab.com"], ["GET", "PUT"], 500)], "rules")
    raises(c, HttpResponseError, "InvalidXmlDocument", "six rules", lambda: s.set_service_properties(cors=[TableCorsRule(["a"], ["GET"])] * 6))
    raises(c, HttpResponseError, "InvalidXmlDocument", "366 days", lambda: s.set_service_properties(minute_metrics=TableMetrics(enabled=True, include_apis=True, retention_policy=TableRetentionPolicy(enabled=True, days=366))))
    off = TableRetentionPolicy(enabled=False)
    s.set_service_properties(analytics_logging=TableAnalyticsLogging(retention_policy=off), hour_metrics=TableMetrics(retention_policy=off), minute_metrics=TableMetrics(retention_policy=off), cors=[])
    c.same(service(2).get_service_properties()["cors"], [], "as before")
    c.same(service().get_service_stats()["geo_replication"]["status"], "live", "the secondary endpoint's statistics")


if __name__ == "__main__":
    sys.exit(checks.run([tables, types, changes, transactions, queries, signatures, service_properties]))
