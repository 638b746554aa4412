"""Requests to the Table service over http.client, signed by hand: nothing of an answer is hidden."""

import base64
import datetime
import email.utils
import hashlib
import hmac
import http.client
import json
import time
import urllib.parse
import uuid

from checks import ACCOUNT, ENDPOINTS, KEY

MINIMAL = "application/json;odata=minimalmetadata"
FULL = "application/json;odata=fullmetadata"
NONE = "application/json;odata=nometadata"
STREAM = ";streaming=true;charset=utf-8"


def sign(text, key=KEY):
    return base64.b64encode(hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()).decode()


class Reply:
    def __init__(self, what, status, reason, headers, body):
        self.what, self.status, self.reason, self.body = what, status, reason, body
        self.headers = {k.lower(): v for k, v in headers}

    @property
    def json(self):
        return json.loads(self.body.decode())

    @property
    def text(self):
        return self.body.decode("utf-8-sig")

    @property
    def code(self):
        try:
            return self.json["odata.error"]["code"]
        except (ValueError, KeyError, TypeError):
            pass
        begin = self.text.find("<Code>")
        return self.text[begin + 6:self.text.find("</Code>")] if begin >= 0 else "none: " + self.text[:200]

    @property
    def message(self):
        return self.json["odata.error"]["message"]["value"]


class Wire:
    """One connection to one node, of one account."""

    def __init__(self, endpoint=ENDPOINTS[0], account=ACCOUNT, key=KEY):
        self.endpoint, self.account, self.key = endpoint, account, key
        self.base = endpoint + "/" + account
        self.host = endpoint.split("//")[1]
        self.conn = None

    def send(self, method, path, query="", body=b"", headers=None, auth="key", date=None):
        """path is below the account, percent-encoded; auth is key, lite, none, or a SAS."""
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        h = {"x-ms-version": "2019-02-02", "x-ms-date": date or email.utils.formatdate(usegmt=True), "DataServiceVersion": "3.0", "Accept": MINIMAL}
        if body:
            h["Content-Type"] = "application/json"
        if body or method in ("POST", "PUT", "PATCH", "MERGE"):
            h["Content-Length"] = str(len(body))
        h.update(headers or {})
        h = {k: v for k, v in h.items() if v is not None}
        target = "/" + self.account + path
        resource = "/" + self.account + target
        params = dict(p.split("=", 1) for p in query.split("&") if "=" in p)
        if "comp" in params:
            resource += "?comp=" + params["comp"]
        stamp = h.get("x-ms-date", h.get("Date", ""))
        if auth == "key":
            text = "\n".join([method, h.get("Content-MD5", ""), h.get("Content-Type", ""), stamp, resource])
            h["Authorization"] = "SharedKey %s:%s" % (self.account, sign(text, self.key))
        elif auth == "lite":
            h["Authorization"] = "SharedKeyLite %s:%s" % (self.account, sign(stamp + "\n" + resource, self.key))
        elif auth != "none":
            query = query + "&" + auth if query else auth
        return self.raw(method, target + ("?" + query if query else ""), body, h)

    def raw(self, method, target, body=b"", headers=None):
        for again in (True, False):
            if self.conn is None:
                self.conn = http.client.HTTPConnection(self.host, timeout=60)
            try:
                self.conn.putrequest(method, target, skip_accept_encoding=True)
                for k, v in (headers or {}).items():
                    self.conn.putheader(k, v)
                self.conn.endheaders(body if body else None)
                r = self.conn.getresponse()
                data = r.read()
                break
            except (http.client.RemoteDisconnected, ConnectionError, BrokenPipeError):
                self.conn.close()
                self.conn = None
                if not again:
                    raise
        if r.will_close:
            self.conn.close()
            self.conn = None
        return Reply("%s %s" % (method, urllib.parse.unquote(target.split("?")[0][len(self.account) + 1:])[:80]), r.status, r.reason, r.getheaders(), data)

    # The usual requests.

    def create(self, table, **kw):
        return self.send("POST", "/Tables", body={"TableName": table}, **kw)

    def drop(self, table, **kw):
        return self.send("DELETE", "/Tables('%s')" % table, **kw)

    def insert(self, table, entity, **kw):
        return self.send("POST", "/" + table, body=entity, **kw)

    def get(self, table, pk, rk, query="", **kw):
        return self.send("GET", at(table, pk, rk), query, **kw)

    def query(self, table, query="", **kw):
        return self.send("GET", "/%s()" % table, query, **kw)

    def filter(self, table, text, **kw):
        return self.query(table, "$filter=" + quote(text), **kw)


def quote(text):
    return urllib.parse.quote(text, safe="")


def at(table, pk, rk):
    """The path of an entity."""
    return "/%s(PartitionKey='%s',RowKey='%s')" % (table, *(urllib.parse.quote(k.replace("'", "''"), safe="'") for k in (pk, rk)))


def stamp(seconds):
    """A time from now, as a SAS says it."""
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def table_sas(table, permissions="r", start="", expiry=None, identifier="", ip="", protocol="", version="2019-02-02", keys=("", "", "", ""), key=KEY, account=ACCOUNT):
    """A service SAS; keys are startpk, startrk, endpk, endrk."""
    expiry = stamp(600) if expiry is None else expiry
    resource = "/table/%s/%s" % (account, table.lower())
    text = "\n".join([permissions, start, expiry, resource, identifier, ip, protocol, version] + list(keys))
    params = [("tn", table), ("sp", permissions), ("st", start), ("se", expiry), ("si", identifier), ("sip", ip), ("spr", protocol), ("sv", version),
              ("spk", keys[0]), ("srk", keys[1]), ("epk", keys[2]), ("erk", keys[3]), ("sig", sign(text, key))]
    return "&".join("%s=%s" % (k, quote(v)) for k, v in params if v)


def account_sas(permissions="r", services="t", types="sco", start="", expiry=None, ip="", protocol="", version="2019-02-02", key=KEY, account=ACCOUNT):
    expiry = stamp(600) if expiry is None else expiry
    text = "\n".join([account, permissions, services, types, start, expiry, ip, protocol, version, ""])
    params = [("ss", services), ("srt", types), ("sp", permissions), ("st", start), ("se", expiry), ("sip", ip), ("spr", protocol), ("sv", version), ("sig", sign(text, key))]
    return "&".join("%s=%s" % (k, quote(v)) for k, v in params if v)


def batch_body(wire, table, changes, host=None, prefer="return-no-content"):
    """A $batch of (method, keys or None, entity or None, headers); returns content type and body."""
    b, cs = "batch_%s" % uuid.uuid4(), "changeset_%s" % uuid.uuid4()
    out = ["--" + b, "Content-Type: multipart/mixed; boundary=" + cs, ""]
    for i, (method, keys, entity, headers) in enumerate(changes):
        path = at(table, *keys) if keys else "/" + table
        data = json.dumps(entity) if isinstance(entity, dict) else entity
        out += ["--" + cs, "Content-Type: application/http", "Content-Transfer-Encoding: binary", "Content-ID: %d" % i, "",
                "%s http://%s%s HTTP/1.1" % (method, host or wire.host + "/" + wire.account, path), "x-ms-version: 2019-02-02", "DataServiceVersion: 3.0", "Accept: " + MINIMAL]
        if method == "POST" and prefer:
            out.append("Prefer: " + prefer)
        out += ["%s: %s" % h for h in (headers or {}).items()]
        if data is not None:
            out += ["Content-Type: application/json", "Content-Length: %d" % len(data.encode())]
        out += ["", data or ""]
    out += ["--" + cs + "--", "", "--" + b + "--", ""]
    return "multipart/mixed; boundary=" + b, "\r\n".join(out).encode()


class BatchReply:
    """What a $batch answered: one (status, headers, body) for each part."""

    def __init__(self, reply):
        self.reply, self.parts, self.what = reply, [], reply.what
        for part in reply.text.split("HTTP/1.1 ")[1:]:
            head, _, body = part.partition("\r\n\r\n")
            lines = head.split("\r\n")
            body = body.split("\r\n--")[0]
            self.parts.append((int(lines[0].split(" ")[0]), {k.strip().lower(): v.strip() for k, _, v in (l.partition(":") for l in lines[1:])}, body))

    @property
    def statuses(self):
        return [p[0] for p in self.parts]

    @property
    def error(self):
        """Code and message's first line of the only part."""
        e = json.loads(self.parts[0][2])["odata.error"]
        return e["code"], e["message"]["value"].split("\n")[0]


def batch(wire, table, changes, **kw):
    auth = kw.pop("auth", "key")
    content_type, body = batch_body(wire, table, changes, **kw)
    r = wire.send("POST", "/$batch", body=body, headers={"Content-Type": content_type}, auth=auth)
    return BatchReply(r) if r.status == 202 else r


def wait_for(condition, seconds=10):
    end = time.time() + seconds
    while not condition():
        if time.time() > end:
            return False
        time.sleep(0.05)
    return True
