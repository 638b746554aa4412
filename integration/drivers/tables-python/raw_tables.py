"""Tables, service properties, statistics, stored policies and CORS, header by header."""

import re

from checks import PREFIX
from wire import FULL, MINIMAL, NONE, STREAM, Wire, account_sas, at, quote, table_sas

w = Wire()
SERVER = lambda v: v is not None and v.startswith("Windows-Azure-Table/1.0")
DATE = lambda v: v is not None and re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", v)
# The service says 0; HTTP/1.1 forbids to say it of a 204.
NO_BODY = lambda v: v in (None, "0")
DATA = {"cache-control": "no-cache", "x-content-type-options": "nosniff", "x-ms-version": "2019-02-02", "server": SERVER, "date": DATE}
XML = {"content-type": "application/xml", "x-ms-version": "2019-02-02", "server": SERVER, "date": DATE}


def create_table(c):
    t = PREFIX + "Create"
    r = w.create(t)
    c.reply(r, 201, headers={**DATA, "content-type": MINIMAL + STREAM, "location": w.base + "/Tables('%s')" % t, "transfer-encoding": lambda v: v in (None, "chunked")},
            absent=["preference-applied"])
    c.same(r.json, {"odata.metadata": w.base + "/$metadata#Tables/@Element", "TableName": t}, "body")
    for again in (t, t.upper(), t.lower()):
        r = w.create(again)
        c.reply(r, 409, "TableAlreadyExists", {**DATA, "content-type": MINIMAL + STREAM})
    c.true(re.fullmatch(r"The table specified already exists\.\nRequestId:[0-9a-f-]{36}\nTime:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z", r.message), "message: " + r.message)
    r = w.create(t + "None", headers={"Accept": NONE})
    c.reply(r, 201, headers={"content-type": NONE + STREAM})
    c.same(r.json, {"TableName": t + "None"}, "body without metadata")
    r = w.create(t + "Full", headers={"Accept": FULL})
    c.reply(r, 201, headers={"content-type": FULL + STREAM})
    c.same(r.json, {"odata.metadata": w.base + "/$metadata#Tables/@Element", "odata.type": w.account + ".Tables",
                    "odata.id": w.base + "/Tables('%sFull')" % t, "odata.editLink": "Tables('%sFull')" % t, "TableName": t + "Full"}, "body with all metadata")
    r = w.create(t + "Quiet", headers={"Prefer": "return-no-content"})
    c.reply(r, 204, headers={**DATA, "preference-applied": "return-no-content", "location": w.base + "/Tables('%sQuiet')" % t,
                             "dataserviceid": w.base + "/Tables('%sQuiet')" % t, "content-length": NO_BODY})
    c.same(r.body, b"", "no body")
    r = w.create(t + "Loud", headers={"Prefer": "return-content"})
    c.reply(r, 201, headers={"preference-applied": "return-content"})


def table_names(c):
    for name, code in (("1abc", "InvalidResourceName"), ("a-b", "InvalidResourceName"), ("a_b", "InvalidResourceName"), ("a b", "InvalidResourceName"),
                       ("Größe", "InvalidResourceName"), ("ab", "OutOfRangeInput"), ("a" * 64, "OutOfRangeInput")):
        r = w.create(name)
        c.reply(r, 400, code)
    r = w.create(PREFIX + "x" * (63 - len(PREFIX)))
    c.reply(r, 201)
    c.reply(w.send("POST", "/Tables", body={}), 400)
    c.reply(w.send("POST", "/Tables", body="{"), 400, "InvalidInput")
    c.reply(w.send("POST", "/Tables", body={"TableName": 7}), 400)


def delete_table(c):
    t = PREFIX + "Drop"
    w.create(t)
    w.insert(t, {"PartitionKey": "p", "RowKey": "r", "a": 1})
    r = w.drop(t.upper())
    c.reply(r, 204, headers={**DATA, "content-length": NO_BODY})
    c.reply(w.drop(t), 404, "ResourceNotFound", {**DATA, "content-type": MINIMAL + STREAM})
    c.reply(w.get(t, "p", "r"), 404, "TableNotFound")
    c.reply(w.query(t), 404, "TableNotFound")
    c.reply(w.insert(t, {"PartitionKey": "p", "RowKey": "r"}), 404, "TableNotFound")
    c.reply(w.create(t), 201)
    c.reply(w.get(t, "p", "r"), 404, "ResourceNotFound")
    c.same(w.query(t).json["value"], [], "a name used again is an empty table")


def query_tables(c):
    names = [PREFIX + "List%02d" % i for i in range(8)]
    for n in names:
        w.create(n)
    low, high = quote("TableName ge '%sList' and TableName lt '%sLisu'" % (PREFIX, PREFIX)), lambda j: [v["TableName"] for v in j["value"]]
    r = w.send("GET", "/Tables", "$filter=" + low)
    c.reply(r, 200, headers={**DATA, "content-type": MINIMAL + STREAM}, absent=["x-ms-continuation-nexttablename", "etag"])
    c.same(r.json["odata.metadata"], w.base + "/$metadata#Tables", "metadata")
    c.same(high(r.json), names, "names in order")
    r = w.send("GET", "/Tables()", "$top=3&$filter=" + low)
    c.reply(r, 200, headers={"x-ms-continuation-nexttablename": bool})
    c.same(high(r.json), names[:3], "first page")
    seen, pages = high(r.json), 1
    while "x-ms-continuation-nexttablename" in r.headers and pages < 9:
        r = w.send("GET", "/Tables", "$top=3&$filter=" + low + "&NextTableName=" + quote(r.headers["x-ms-continuation-nexttablename"]))
        seen, pages = seen + high(r.json), pages + 1
    c.same((seen, pages), (names, 3), "all pages")
    r = w.send("GET", "/Tables('%s')" % names[2].lower())
    c.reply(r, 200)
    c.same(r.json.get("TableName"), names[2], "one table by name, spelled as created")
    c.reply(w.send("GET", "/Tables('%sNothing')" % PREFIX), 404, "ResourceNotFound")
    r = w.send("GET", "/Tables", "$filter=" + quote("TableName eq '%s'" % names[1]), headers={"Accept": NONE})
    c.same(r.json, {"value": [{"TableName": names[1]}]}, "no metadata")
    r = w.send("GET", "/Tables", "$top=1&$filter=" + quote("TableName eq '%s'" % names[1]), headers={"Accept": FULL})
    c.same(r.json["value"][0].get("odata.editLink"), "Tables('%s')" % names[1], "all metadata")
    c.reply(w.send("GET", "/Tables", "$top=1001"), 400)
    c.reply(w.send("GET", "/Tables", "$filter=" + quote("TableName eq ")), 400, "InvalidInput")
    for n in names:
        c.same(w.drop(n).status, 204, "drop")


CORS = "<CorsRule><AllowedOrigins>%s</AllowedOrigins><AllowedMethods>%s</AllowedMethods><AllowedHeaders>%s</AllowedHeaders><ExposedHeaders>%s</ExposedHeaders><MaxAgeInSeconds>%d</MaxAgeInSeconds></CorsRule>"
METRICS = "<Version>1.0</Version><Enabled>%s</Enabled>%s<RetentionPolicy><Enabled>%s</Enabled>%s</RetentionPolicy>"
SERVICE = "restype=service&comp=properties"


def properties(body):
    return w.send("PUT", "/", SERVICE, body="<?xml version='1.0' encoding='utf-8'?>\n<StorageServiceProperties>%s</StorageServiceProperties>" % body, headers={"Content-Type": "application/xml", "Accept": "application/xml"})


def service_properties(c):
    everything = ("<Logging><Version>1.0</Version><Delete>true</Delete><Read>true</Read><Write>false</Write><RetentionPolicy><Enabled>true</Enabled><Days>5</Days></RetentionPolicy></Logging>"
                  "<HourMetrics>" + METRICS % ("true", "<IncludeAPIs>true</IncludeAPIs>", "true", "<Days>7</Days>") + "</HourMetrics>"
                  "<MinuteMetrics>" + METRICS % ("false", "", "false", "") + "</MinuteMetrics><Cors />")
    r = properties(everything)
    c.reply(r, 202, headers={"x-ms-version": "2019-02-02", "server": SERVER})
    c.same(r.body, b"", "no body")
    r = w.send("GET", "/", SERVICE, headers={"Accept": "application/xml"})
    c.reply(r, 200, headers=XML)
    c.same(r.body[:3], b"\xef\xbb\xbf", "the document begins with a byte order mark")
    want = ("<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceProperties>"
            "<Logging><Version>1.0</Version><Read>true</Read><Write>false</Write><Delete>true</Delete><RetentionPolicy><Enabled>true</Enabled><Days>5</Days></RetentionPolicy></Logging>"
            "<HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy></HourMetrics>"
            "<MinuteMetrics><Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></MinuteMetrics><Cors /></StorageServiceProperties>")
    c.same(r.text, want, "the document")
    c.reply(properties("<Cors>" + (CORS % ("http://a.example.com", "GET", "*", "*", 10)) + "</Cors>"), 202)
    r = w.send("GET", "/", SERVICE)
    c.true("<AllowedOrigins>http://a.example.com</AllowedOrigins>" in r.text, "the rule is there")
    c.true("<Days>7</Days>" in r.text, "what was not said stays as it was")
    for bad in ("<Cors>" + (CORS % ("http://a", "GET", "", "", 1)) * 6 + "</Cors>",
                "<Logging><Version>1.0</Version><Delete>true</Delete><Read>true</Read><Write>true</Write><RetentionPolicy><Enabled>true</Enabled><Days>366</Days></RetentionPolicy></Logging>",
                "<Logging><Version>1.0"):
        r = properties(bad)
        c.reply(r, 400, headers={"x-ms-error-code": bool, "content-type": "application/xml"})
        c.same(r.code, r.headers.get("x-ms-error-code"), "the code in body and header")
    c.reply(properties("<Cors />"), 202)
    c.true("<Cors />" in w.send("GET", "/", SERVICE).text, "no rules again")


def statistics(c):
    r = w.send("GET", "/", "restype=service&comp=stats", headers={"Accept": "application/xml"})
    if r.status == 400:
        # The service has statistics at the secondary's address only.
        secondary = Wire()
        r = secondary.raw("GET", "/%s-secondary/?restype=service&comp=stats&%s" % (w.account, account_sas()), headers={"x-ms-version": "2019-02-02"})
    c.reply(r, 200, headers={"content-type": "application/xml"})
    c.true(re.search(r"<StorageServiceStats><GeoReplication><Status>(live|bootstrap|unavailable)</Status><LastSyncTime>", r.text), "document: " + r.text[:200])


def acl(table, identifiers, **kw):
    return w.send("PUT", "/" + table, "comp=acl", body="<?xml version='1.0' encoding='utf-8'?>\n<SignedIdentifiers>%s</SignedIdentifiers>" % identifiers,
                  headers={"Content-Type": "application/xml", "Accept": "application/xml"}, **kw)


def identifier(name, start="", expiry="", permission=""):
    policy = "".join("<%s>%s</%s>" % (k, v, k) for k, v in (("Start", start), ("Expiry", expiry), ("Permission", permission)) if v)
    return "<SignedIdentifier><Id>%s</Id>%s</SignedIdentifier>" % (name, "<AccessPolicy>%s</AccessPolicy>" % policy if policy else "<AccessPolicy />")


def stored_policies(c):
    t = PREFIX + "Acl"
    w.create(t)
    r = w.send("GET", "/" + t, "comp=acl", headers={"Accept": "application/xml"})
    c.reply(r, 200, headers=XML)
    c.same(r.text, '<?xml version="1.0" encoding="utf-8"?><SignedIdentifiers />', "no policies")
    r = acl(t, identifier("testid", "2021-06-08T02:05:09Z", "2021-06-08T03:10:09Z", "r"))
    c.reply(r, 204, headers={"content-length": NO_BODY, "x-ms-version": "2019-02-02"})
    r = w.send("GET", "/" + t, "comp=acl")
    c.same(r.text, '<?xml version="1.0" encoding="utf-8"?><SignedIdentifiers><SignedIdentifier><Id>testid</Id><AccessPolicy><Start>2021-06-08T02:05:09.0000000Z</Start>'
           '<Expiry>2021-06-08T03:10:09.0000000Z</Expiry><Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>', "the policy")
    c.reply(acl(t, identifier("partly", permission="raud") + identifier("empty")), 204)
    c.true("<Id>partly</Id><AccessPolicy><Permission>raud</Permission></AccessPolicy>" in w.send("GET", "/" + t, "comp=acl").text, "a policy in part")
    for bad in ("".join(identifier("id%d" % i) for i in range(6)), "<SignedIdentifier>", identifier("x", start="yesterday"), identifier("i" * 65)):
        c.reply(acl(t, bad), 400, "InvalidXmlDocument" if "<Start>" not in bad else None, {"x-ms-error-code": bool, "content-type": "application/xml"})
    c.reply(acl(PREFIX + "Nothing", ""), 404, None, {"x-ms-error-code": lambda v: v in ("ResourceNotFound", "TableNotFound"), "content-type": "application/xml"})
    c.reply(w.send("GET", "/%sNothing" % PREFIX, "comp=acl"), 404, None, {"content-type": "application/xml"})
    c.reply(acl(t, ""), 204)
    c.same(w.send("GET", "/" + t, "comp=acl").text, '<?xml version="1.0" encoding="utf-8"?><SignedIdentifiers />', "none again")


def preflight(origin, method, headers="", path="/x"):
    h = {"Origin": origin, "Access-Control-Request-Method": method}
    if headers:
        h["Access-Control-Request-Headers"] = headers
    return w.raw("OPTIONS", "/%s%s" % (w.account, path), headers=h)


def cors(c):
    t = PREFIX + "Cors"
    w.create(t)
    w.insert(t, {"PartitionKey": "p", "RowKey": "r"})
    rules = CORS % ("http://a.example.com,https://b.example.com", "GET,PUT", "x-ms-*,accept,dataserviceversion", "x-ms-*", 200) + CORS % ("*", "DELETE", "*", "", 5)
    c.same(properties("<Cors>" + rules + "</Cors>").status, 202, "rules")
    try:
        r = preflight("http://a.example.com", "GET", "x-ms-date,accept", "/" + t)
        c.reply(r, 200, headers={"access-control-allow-origin": "http://a.example.com", "access-control-allow-methods": lambda v: v and "GET" in v,
                                 "access-control-allow-headers": lambda v: v and v.replace(" ", "") == "x-ms-date,accept", "access-control-max-age": "200",
                                 "access-control-allow-credentials": lambda v: v in (None, "true")})
        for origin, method, headers in (("http://c.example.com", "GET", ""), ("http://a.example.com", "POST", ""), ("http://a.example.com", "GET", "authorization")):
            r = preflight(origin, method, headers, "/" + t)
            c.reply(r, 403, "CorsPreflightFailure", absent=["access-control-allow-origin"])
        r = preflight("http://anyone.example.net", "DELETE", "if-match", "/" + t)
        c.reply(r, 200, headers={"access-control-allow-origin": "*", "access-control-max-age": "5"})
        c.reply(w.raw("OPTIONS", "/%s/%s" % (w.account, t)), 400)
        r = w.get(t, "p", "r", headers={"Origin": "https://b.example.com"})
        c.reply(r, 200, headers={"access-control-allow-origin": "https://b.example.com", "vary": "Origin", "access-control-expose-headers": lambda v: v and "x-ms-" in v.lower()})
        r = w.get(t, "p", "r", headers={"Origin": "http://c.example.com"})
        c.reply(r, 200, absent=["access-control-allow-origin"])
        r = w.get(t, "p", "r", headers={"Origin": "https://b.example.com"}, auth=table_sas(t))
        c.reply(r, 200, headers={"access-control-allow-origin": "https://b.example.com"})
        r = w.get(t, "p", "r", headers={"Origin": "https://b.example.com"}, auth="none")
        c.true(r.status in (401, 403, 404), "no rule lets anyone in: %d" % r.status)
    finally:
        c.same(properties("<Cors />").status, 202, "no rules")
    c.same(preflight("http://a.example.com", "GET", "", "/" + t).status, 403, "without rules all is refused")


GROUPS = [create_table, table_names, delete_table, query_tables, service_properties, statistics, stored_policies, cors]
