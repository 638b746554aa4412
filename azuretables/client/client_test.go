package client

import (
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestSignature compares the signature of a fixed text by the development account's key with one computed by OpenSSL.
func TestSignature(t *testing.T) {
	key, err := base64.StdEncoding.DecodeString(
		"Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==")
	if err != nil {
		t.Fatal(err)
	}
	text := StringToSign("PUT", "application/xml", "Wed, 26 May 2021 15:48:07 GMT", "devstoreaccount1",
		"/devstoreaccount1/T", "timeout=3&comp=acl")
	if want := "PUT\n\napplication/xml\nWed, 26 May 2021 15:48:07 " +
		"GMT\n/devstoreaccount1/devstoreaccount1/T?comp=acl"; text != want {
		t.Fatalf("string to sign %q, want %q", text, want)
	}
	if got, want := Sign(key, text), "LV/SJi2GWUa2OR8qz+TKUsPwbfT6GxbK9eXlcMGKOdE="; got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
}

func TestRequestAndAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.EscapedPath() != "/a/T(PartitionKey='p%20%27%27',RowKey='r%2F')" &&
			r.URL.Path != "/a/T(PartitionKey='p ''',RowKey='r/')" {
			t.Errorf("path %s", r.URL.EscapedPath())
		}
		want := "SharedKey a:" + Sign([]byte("key"), StringToSign("PUT", "application/json", r.Header.Get("x-ms-date"),
			"a", r.URL.EscapedPath(), r.URL.RawQuery))
		if r.Header.Get("Authorization") != want || r.Header.Get("If-Match") != "*" || string(body) != "{}" {
			t.Errorf("headers %v, body %s", r.Header, body)
		}
		w.WriteHeader(http.StatusConflict)
		io.WriteString(w, `{"odata.error":{"code":"EntityAlreadyExists"}}`)
	}))
	defer server.Close()
	c, err := New(server.URL, "a", base64.StdEncoding.EncodeToString([]byte("key")), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := c.Do(context.Background(), Request{Method: "PUT", Path: EntityPath("T", "p '", "r/"), Body: []byte("{}"),
		IfMatch: "*"})
	if err != nil || r.Status != 409 || r.Code() != "EntityAlreadyExists" || r.Err(204) == nil ||
		r.Err(204, 409) != nil {
		t.Errorf("%+v %v", r, err)
	}
	for _, bad := range []string{"", "x", "http://", "http://h/account"} {
		if _, err := New(bad, "a", "AAAA", 1); err == nil {
			t.Errorf("base %q was accepted", bad)
		}
	}
	if _, err := New(server.URL, "a", "!", 1); err == nil {
		t.Error("a key that is not base64 was accepted")
	}
}

func TestTransaction(t *testing.T) {
	r := Transaction("T", []Change{{Method: "POST", Body: []byte(`{"a":1}`)},
		{Method: "DELETE", PartitionKey: "p", RowKey: "r", IfMatch: "*"}})
	for _, want := range []string{"\r\n\r\n{\"a\":1}\r\n", "POST http://localhost/T HTTP/1.1\r\n",
		"DELETE http://localhost/T(PartitionKey='p',RowKey='r') HTTP/1.1\r\n", "If-Match: *\r\n",
		"Content-Length: 7\r\n"} {
		if strings.Count(string(r.Body), want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, r.Body)
		}
	}
	answer := &Response{Body: []byte("--b\r\nContent-Type: x\r\n\r\n--c\r\n\r\nHTTP/1.1 204 No " +
		"Content\r\n\r\n--c\r\n\r\nHTTP/1.1 201 Created\r\n\r\n{}\r\n--c--")}
	if got := answer.Statuses(); len(got) != 2 || got[0] != 204 || got[1] != 201 {
		t.Errorf("statuses %v", got)
	}
}
