package odata

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzDecodeEntity checks that an accepted body is valid JSON, and that encoding and decoding its result returns the
// same.
func FuzzDecodeEntity(f *testing.F) {
	for _, name := range []string{"inserts.txt", "answers.txt"} {
		for _, line := range recordedLines(f, name) {
			f.Add([]byte(line))
		}
	}
	for _, seed := range []string{
		`{"PartitionKey":"a","RowKey":"b","n":5000000000,"m":"5","m@odata.type":"Edm.Int64","x":1e3,"y":null}`,
		`{"d@odata.type":"Edm.Double","d":"NaN","t@odata.type":"Edm.DateTime","t":"1601-01-01T00:00:00+01:00"}`,
		`{"s":"\ud83d\ude00\n\u0041","odata.x":[1,{"a":{}}],"g@odata.type":"Edm.Guid","g":"{c9da6455213d42c99a793e9149a57833}"}`,
	} {
		f.Add([]byte(seed))
	}
	l := DefaultLimits()
	f.Fuzz(func(t *testing.T, body []byte) {
		var e Entity
		_, err := DecodeEntity(bytes.Clone(body), &l, &e)
		if err != nil {
			if Code.Status(err.(*Error).Code) != 400 {
				t.Fatalf("%v", err)
			}
			return
		}
		if !json.Valid(bytes.TrimPrefix(body, []byte("\ufeff"))) {
			t.Fatalf("accepted invalid JSON: %q", body)
		}
		text := (&Context{Level: MinimalMetadata}).AppendEntity(nil, &e)
		var back Entity
		if _, err := DecodeEntity(bytes.Clone(text), &l, &back); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		sameEntity(t, &back, &e, string(text))
	})
}

// FuzzStrings compares strings with the results of encoding/json, except where encoding/json replaces invalid
// characters.
func FuzzStrings(f *testing.F) {
	for _, s := range []string{`"a\u00e9\ud83d\ude00\\"`, `"\ud800"`, `"é啊"`, `"\b\f\n\r\t\/\""`, "\"\x01\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var want string
		err := json.Unmarshal(b, &want)
		c := cursor{body: bytes.Clone(b)}
		got := c.text()
		if whole := c.peek() == 0 && c.pos == len(c.body) && !c.bad; whole && (err != nil || string(got) != want) {
			t.Fatalf("%q: %q, want %q (%v)", b, got, want, err)
		} else if !whole && err == nil && !strings.Contains(want, "\ufffd") && len(bytes.TrimSpace(b)) > 0 &&
			bytes.TrimSpace(b)[0] == '"' {
			t.Fatalf("%q refused, is %q", b, want)
		}
	})
}

// FuzzParseFilter checks that formatting and parsing an accepted filter again returns the same text, and that Matches
// does not panic.
func FuzzParseFilter(f *testing.F) {
	for _, s := range []string{
		"aaa bbb ccc", "PartitionKey eq 'a''b' and RowKey gt '1'", "not (a lt 5L or 3.5 ge b)", "flag", "-5 eq x",
		"t ge datetime'2021-05-26T15:48:07.0454448Z'", "g eq guid'c9da6455-213d-42c9-9a79-3e9149a57833'",
		"b eq X'00ff' or b ne binary'1234'", "startswith(a,'x') and contains(b,'y')", "substringof('x',a) eq false",
		"((((a))))", "not not a", "true", "NaN ne INF", "a eq -INF", "x add 1 eq 2", "a eq 0000000000000000000005",
		"啊齄丂狛狜 eq 'x'",
	} {
		f.Add(s)
	}
	l := DefaultLimits()
	f.Fuzz(func(t *testing.T, text string) {
		x, err := ParseFilter(text, &l)
		if err != nil {
			return
		}
		Matches(x, &Entity{PartitionKey: "p", Properties: []Property{{Name: "a", Value: Value{Type: Int32, Int: 5}}}})
		if x == nil {
			return
		}
		raised := l // the formatted text has explicit parentheses, and therefore more depth than the input
		raised.FilterDepth, raised.FilterBytes = 1000, 1<<20
		printed := string(AppendFilter(nil, x))
		back, err := ParseFilter(printed, &raised)
		if err != nil {
			t.Fatalf("%v: %q from %q", err, printed, text)
		}
		if again := string(AppendFilter(nil, back)); again != printed {
			t.Fatalf("%q was formatted as %q", printed, again)
		}
	})
}

// FuzzParsePath checks that an accepted path has a resource and an account, and that parsing the link of an entity
// returns its path.
func FuzzParsePath(f *testing.F) {
	for _, s := range []string{
		"/acc/Tables", "/acc/Tables('x')", "/acc/t()", "/acc/t(PartitionKey='a%27%27b',RowKey='c%20d')", "/acc/$batch",
		"/acc/t()/$count", "/acc/t(PartitionKey='x')", "/acc", "/", "/acc/t(RowKey='c', PartitionKey='a''b')", "/a/%",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if u, _, err := ParseBatchURL(path); err == nil && u.Resource == 0 {
			t.Fatalf("nothing: %q", path)
		}
		p, err := ParsePath(path, "")
		if err != nil {
			return
		}
		if p.Resource == 0 || p.Account == "" {
			t.Fatalf("nothing: %q %+v", path, p)
		}
		if p.Resource != OneEntity || strings.ContainsAny(p.Table, "%?#") {
			return
		}
		link := "/acc/" + string(AppendLink(nil, p.Table, p.PartitionKey, p.RowKey))
		back, err := ParsePath(link, "")
		p.Account = "acc"
		if err != nil || back != p {
			t.Fatalf("%q is %+v, but %q is %+v: %v", path, p, link, back, err)
		}
	})
}

// FuzzParseBatch checks the number of operations of an accepted batch, and that a transaction has no GET.
func FuzzParseBatch(f *testing.F) {
	const kind = "multipart/mixed; boundary=b"
	f.Add(recordedFile(f, "batch1.request"), "multipart/mixed; boundary=batch_cf1f876a-6b0e-4b98-8084-8fc7426d501b")
	f.Add(recordedFile(f, "batch3.request"), "multipart/mixed; boundary=\"batch_76f336af-4439-48d9-8fe3-b7bbdf77169d\"")
	f.Add([]byte("--b\r\nContent-Type: application/http\r\n\r\nGET /t()?$top=1 HTTP/1.1\r\nAccept: "+
		"*/*\r\n\r\n\r\n--b--\r\n"), kind)
	f.Add([]byte("--b\nContent-Type: multipart/mixed; boundary=c\n\n--c\nContent-Type: application/http\n\nDELETE "+
		"t(PartitionKey='a',RowKey='b') HTTP/1.1\nIf-Match: *\n\n--c--\n--b--"), kind)
	l := DefaultLimits()
	l.BatchOperations = 5
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		b, err := ParseBatch(body, contentType, &l)
		if err != nil {
			return
		}
		if len(b.Requests) == 0 || len(b.Requests) > l.BatchOperations || !b.Changeset && len(b.Requests) != 1 {
			t.Fatalf("%d operations", len(b.Requests))
		}
		for i := range b.Requests {
			if r := &b.Requests[i]; r.Method == "" || r.Path.Resource == 0 || (r.Method == "GET") == b.Changeset {
				t.Fatalf("%+v", r)
			}
		}
	})
}

// FuzzParseETag checks that the tag of an accepted Timestamp is parsed to the same Timestamp.
func FuzzParseETag(f *testing.F) {
	f.Add(`W/"datetime'2021-05-26T15%3A48%3A07.0454448Z'"`)
	f.Add("*")
	f.Add(`W/"datetime'2021-05-26T15:48:07.04544485555%2b02:00'"`)
	f.Add(`W/"ticks'2534023008000000000'"`)
	f.Fuzz(func(t *testing.T, tag string) {
		ticks, any, err := ParseETag(tag)
		if err != nil || any {
			return
		}
		back, _, err := ParseETag(string(AppendETag(nil, ticks)))
		if err != nil || back != ticks {
			t.Fatalf("%q is %d, but was parsed again as %d: %v", tag, ticks, back, err)
		}
	})
}

func FuzzParseSelect(f *testing.F) {
	f.Add("a, b,RowKey")
	f.Add("*")
	l := DefaultLimits()
	f.Fuzz(func(t *testing.T, text string) {
		names, err := ParseSelect(text, &l)
		if err != nil || names == nil {
			return
		}
		c := Context{Select: names, SelectText: text, Table: "t"}
		if answer := c.AppendEntity(nil, &Entity{}); !json.Valid(answer) {
			t.Fatalf("%s", answer)
		}
	})
}
