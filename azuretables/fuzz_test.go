package azuretables

import (
	"context"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"cqld/azuretables/odata"
	"cqld/request"
)

// send1 serves one request without a transport.
func send1(d *Server, req *httpRequest) *response {
	var resp response
	resp.reset()
	req.remote = netip.MustParseAddrPort("127.0.0.1:1")
	d.handle(context.Background(), req, &resp)
	return &resp
}

// wellFormed checks the properties that every response has.
func wellFormed(t *testing.T, r *response) {
	t.Helper()
	if r.status < 200 || r.status > 599 {
		t.Fatalf("status %d", r.status)
	}
	if r.status == 500 {
		t.Fatalf("an internal error: %s", r.body)
	}
	if r.status >= 400 && !strings.Contains(string(r.body), `"code":"`) && !strings.Contains(string(r.body), "<Code>") {
		t.Fatalf("%d without a code: %q", r.status, r.body)
	}
	for _, f := range r.fields {
		if strings.ContainsAny(f.value, "\r\n\x00") && f.name != "x-ms-client-request-id" {
			t.Fatalf("header %s: %q", f.name, f.value)
		}
	}
	if strings.ContainsAny(r.text, "\r\n") {
		t.Fatalf("status text %q", r.text)
	}
}

// FuzzUnauthenticated checks that a client without the key can neither change nor read anything.
func FuzzUnauthenticated(f *testing.F) {
	f.Add("GET", "/devstoreaccount1/races()",
		"se=2021-05-27T00%3A00%3A00Z&sp=r&sv=2019-02-02&tn=races"+
			"&sig=S5Ujxcpj3VSa3EG8oDookMWKMzF60p%2BSKUxJ3Cpc8hk%3D", "", "{}")
	f.Add("POST", "/devstoreaccount1/races", "", "SharedKey "+
		"devstoreaccount1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", `{"PartitionKey":"p","RowKey":"r"}`)
	f.Add("DELETE", "/devstoreaccount1/Tables('races')", "", "SharedKeyLite devstoreaccount1:=", "")
	f.Add("POST", "/devstoreaccount1/$batch", "ss=t&srt=sco&sp=rwdlacu&se=2099&sv=2020-12-06&sig=", "Bearer x", "--b")
	f.Add("OPTIONS", "/devstoreaccount1", "", "", "")
	b := newBench(f, nil)
	b.send("POST /devstoreaccount1/Tables\nContent-Type: application/json\n\n{\"TableName\":\"races\"}")
	b.send("PUT /devstoreaccount1/races(PartitionKey='p',RowKey='secret')\nContent-Type: " +
		"application/json\n\n{\"a\":\"secret value\"}")
	writes := b.memory.writes
	f.Fuzz(func(t *testing.T, method, path, query, authorization, body string) {
		req := &httpRequest{method: method, path: path, query: query, host: "127.0.0.1:10002", body: []byte(body)}
		req.header = header{authorization: authorization, msDate: b.date(), accept: "application/json",
			contentType: "application/json", ifMatch: "*"}
		r := send1(b.server, req)
		wellFormed(t, r)
		if r.status < 400 {
			t.Fatalf("an unauthenticated client got %d: %s", r.status, r.body)
		}
		if b.memory.writes != writes || strings.Contains(string(r.body), "secret value") {
			t.Fatal("an unauthenticated client touched data")
		}
	})
}

// FuzzRequests checks that signed but meaningless requests get an error code, never a panic or an internal error.
func FuzzRequests(f *testing.F) {
	for _, s := range []struct{ method, target, contentType, body string }{
		{"GET", "/races()?$filter=n%20gt%201&$select=n&$top=5&NextPartitionKey=1!4!cQ--&NextRowKey=1!4!YQ--", "", ""},
		{"POST", "/races", "application/json", `{"PartitionKey":"p","RowKey":"r","n@odata.type":"Edm.Int64","n":"5"}`},
		{"PUT", "/races(PartitionKey='p',RowKey='it''s')", "application/json", `{"a":null}`},
		{"DELETE", "/races()?$filter=n%20eq%201", "", ""},
		{"POST", "/$batch", "multipart/mixed; boundary=b",
			"--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: " +
				"application/http\r\n\r\nPUT /races(PartitionKey='p',RowKey='r') HTTP/1.1\r\nContent-Type: " +
				"application/json\r\n\r\n{}\r\n--c--\r\n--b--\r\n"},
		{"POST", "/$batch", "multipart/mixed; boundary=b",
			"--b\r\nContent-Type: application/http\r\n\r\nGET /races()?$top=1 HTTP/1.1\r\nAccept: " +
				"application/json\r\n\r\n\r\n--b--\r\n"},
		{"PUT", "/?restype=service&comp=properties", "application/xml",
			"<StorageServiceProperties><Cors /></StorageServiceProperties>"},
		{"PUT", "/races?comp=acl", "application/xml",
			"<SignedIdentifiers><SignedIdentifier><Id>a</Id></SignedIdentifier></SignedIdentifiers>"},
		{"GET", "/races()/$count", "", ""}, {"PATCH", "/Tables('races')", "", ""},
	} {
		f.Add(s.method, s.target, s.contentType, s.body, "*", "application/json;odata=fullmetadata")
	}
	b := newBench(f, nil)
	f.Fuzz(func(t *testing.T, method, target, contentType, body, ifMatch, accept string) {
		if _, ok := b.memory.Exists(DevelopmentAccount, "races"); !ok {
			if err := b.memory.CreateTable(new(request.Request), DevelopmentAccount, "races"); err != nil {
				t.Fatal(err)
			}
		}
		path, query, _ := strings.Cut("/"+DevelopmentAccount+target, "?")
		if !strings.HasPrefix(target, "/") || strings.Contains(method, " ") {
			return // another account, or a request that the transport refuses
		}
		req := &httpRequest{method: method, path: path, query: query, host: "127.0.0.1:10002", body: []byte(body)}
		req.header = header{msDate: b.date(), accept: accept, contentType: contentType, ifMatch: ifMatch}
		p, err := parseParams(query)
		if err != nil {
			return
		}
		stringToSign := b.server.accounts.named(DevelopmentAccount).appendStringToSign(nil, req, req.path, false,
			req.header.msDate, p.comp)
		req.header.authorization = "SharedKey " + DevelopmentAccount + ":" +
			b.hmac(DevelopmentAccount, string(stringToSign))
		r := send1(b.server, req)
		wellFormed(t, r)
		if strings.Contains(string(r.body), "AuthenticationFailed") && method != "OPTIONS" {
			t.Fatalf("a valid signature was refused: %s", r.body)
		}
	})
}

// FuzzContinuations checks that a valid token decodes to the key it was made from, and that any other string is refused
// or equals the token of the decoded key.
func FuzzContinuations(f *testing.F) {
	f.Add("pk801016e8")
	f.Add("")
	f.Add("1!4!cQ--")
	f.Fuzz(func(t *testing.T, s string) {
		token := continuation(s)
		if back, err := parseContinuation(token); err != nil || back != s {
			t.Fatalf("%q: %q, %v", token, back, err)
		}
		if escaped := url.PathEscape(token); strings.ContainsAny(token, "+/=&") {
			t.Fatalf("%q has characters that a URL changes: %q", token, escaped)
		}
		if key, err := parseContinuation(s); err == nil && continuation(key) != s {
			t.Fatalf("%q is read as %q, whose token is %q", s, key, continuation(key))
		}
	})
}

// FuzzRangesOfKeys checks that covers and the filter of restrict agree on every key.
func FuzzRangesOfKeys(f *testing.F) {
	f.Add("berlin", "b", "berlin", "d", "berlin", "c")
	f.Add("a", "", "b", "", "b", "z")
	f.Add("", "x", "", "", "", "")
	f.Fuzz(func(t *testing.T, startPK, startRK, endPK, endRK, partitionKey, rowKey string) {
		for _, s := range []string{startPK, startRK, endPK, endRK, partitionKey, rowKey} {
			if !utf8.ValidString(s) || strings.Contains(s, "\n") {
				return
			}
		}
		b := newBenchWithoutListener(t)
		s := &signature{version: "2019-02-02", table: "races", permissions: "raud", expiry: "2099-01-01",
			startPK: startPK, startRK: startRK, endPK: endPK, endRK: endRK}
		a := b.server.accounts.named(DevelopmentAccount)
		s.sig = b.hmac(DevelopmentAccount, string(a.appendTableString(nil, s, "races")))
		g, err := a.authorizeSignature(&httpRequest{}, s, b.clock.Now(), nil)
		if err != nil {
			t.Fatal(err)
		}
		filter := g.restrict(nil)
		e := &odata.Entity{PartitionKey: partitionKey, RowKey: rowKey}
		if seen := filter == nil || odata.Matches(filter, e); seen != g.covers(partitionKey, rowKey) {
			t.Fatalf("reading %v, writing %v", seen, !seen)
		}
	})
}
