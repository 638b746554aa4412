package azuretables

import (
	"errors"
	"strings"
	"testing"

	"cqld/azuretables/odata"
)

// TestTheDevelopmentAccountNeedsAKnownHost checks that exactly the host names are refused by which a web page could
// reach the account whose key is public (DNS rebinding).
func TestTheDevelopmentAccountNeedsAKnownHost(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Hosts = []string{"tables.test"} })
	for _, c := range []struct {
		host, path string
		refused    bool
	}{
		{"127.0.0.1:10002", "/devstoreaccount1/T", false},
		{"127.0.0.1", "/devstoreaccount1/T", false},
		{"[::1]:10002", "/devstoreaccount1/T", false},
		{"localhost:10002", "/devstoreaccount1/T", false},
		{"LOCALHOST.", "/devstoreaccount1/T", false},
		{"devstoreaccount1.localhost:10002", "/T", false},
		{"tables.test:10002", "/devstoreaccount1/T", false},
		{"evil.example:10002", "/devstoreaccount1/T", true},
		{"devstoreaccount1.evil.example", "/T", true},
		{"localhost.evil.example", "/devstoreaccount1/T", true},
		{"127.0.0.1.evil.example", "/devstoreaccount1/T", true},
		{"evil.example", "/races/T", false}, // the account's key is not public
	} {
		call := &call{server: b.server}
		call.begin(t.Context(), &httpRequest{host: c.host, path: c.path, method: "GET"}, nil)
		err := call.locate()
		var e *odata.Error
		refused := errors.As(err, &e) && e.Code == odata.AuthorizationFailure
		if refused != c.refused || err != nil && !refused {
			t.Errorf("%s%s: %v, want refused %v", c.host, c.path, err, c.refused)
		}
	}
}

// TestHostLabelsNameAccounts checks which account a host name and a path address.
func TestHostLabelsNameAccounts(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.Accounts = append(o.Accounts, Account{Name: "127", Key: "cmFjZXMgcmFjZXMgcmFjZXMh"})
	})
	for _, c := range []struct {
		host, path, account string
		resource            odata.Resource
		secondary           bool
	}{
		{"races.tables.example", "/T", "races", odata.EntitySet, false},
		{"Races.Tables.example:10002", "/T", "races", odata.EntitySet, false},
		{"RACES-Secondary.tables.example", "/T", "races", odata.EntitySet, true},
		{"other.tables.example", "/races/T", "races", odata.EntitySet, false},
		{"127.tables.example", "/T", "127", odata.EntitySet, false},
		// An address is not a host name, even if an account is named like its first number.
		{"127.0.0.1", "/races/T", "races", odata.EntitySet, false},
		{"127.0.0.1:10002", "/races/T(PartitionKey='p',RowKey='r')", "races", odata.OneEntity, false},
		{"127.0.0.256", "/T", "127", odata.EntitySet, false},
	} {
		call := &call{server: b.server}
		call.begin(t.Context(), &httpRequest{host: c.host, path: c.path, method: "GET"}, nil)
		if err := call.locate(); err != nil || call.misnamed != nil || call.account.name != c.account ||
			call.path.Resource != c.resource || call.path.Table != "T" || call.secondary != c.secondary {
			t.Errorf("%s%s: account %q, %+v, %v, %v", c.host, c.path, call.account.name, call.path, call.misnamed, err)
		}
	}
}

// TestAbsoluteTargetsPrecedeHost checks that the host of an absolute request target is used, and not the header.
func TestAbsoluteTargetsPrecedeHost(t *testing.T) {
	b := newBench(t, nil)
	for _, c := range []struct{ target, signed string }{
		{"http://races.tables.example/Tables?$top=1", "/Tables"},
		{"http://races.tables.example/?restype=service&comp=properties", "/?comp=properties"},
		{"http://races.tables.example?restype=service&comp=properties", "/?comp=properties"},
		{"http://127.0.0.1:10002/races/Tables", "/races/Tables"},
	} {
		resp, body := b.raw([]byte("GET "+c.target+" HTTP/1.1\r\nHost: other.example\r\nx-ms-date: "+b.date()+
			"\r\nAuthorization: "+b.sign("races", "GET", c.signed, "")+"\r\n\r\n"), "GET")
		if resp.StatusCode != 200 || strings.Contains(body, "other.example") {
			t.Errorf("%s: %d %s", c.target, resp.StatusCode, body)
		}
	}
}
