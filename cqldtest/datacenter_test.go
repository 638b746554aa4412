package cqldtest_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"cqld/azuretables"
	"cqld/azuretables/client"
	"cqld/cqldtest"
	"cqld/node/config"
)

// tablesOf returns a client of an account at a node.
func tablesOf(t *testing.T, ring *cqldtest.Cluster, at int, account, key string) *client.Client {
	t.Helper()
	endpoint := strings.TrimSuffix(ring.Node(at).TablesEndpoint(), "/"+azuretables.DevelopmentAccount)
	c, err := client.New(endpoint, account, key, 1)
	if err != nil {
		t.Fatal(err)
	}
	c.SetTransport(ring.RoundTripper())
	return c
}

// TestDatacenterIsLost ends one of two data centers. An account of Azure Tables at LOCAL_QUORUM still inserts, replaces
// by etag, reads and queries; one at QUORUM is refused. Conditional changes by CQL behave in the same way, and one
// whose commit needs the lost data center changes nothing.
func TestDatacenterIsLost(t *testing.T) {
	key := base64.StdEncoding.EncodeToString([]byte("the key of both accounts"))
	ring := cqldtest.Start(t, cqldtest.Nodes(6), cqldtest.Datacenters(2),
		cqldtest.Configure(func(_ int, o *config.Options) {
			o.Tables.Accounts = []azuretables.Account{
				{Name: "near", Key: key, Consistency: azuretables.LocalQuorum}, {Name: "everywhere", Key: key}}
		}))
	var names []string
	for _, n := range ring.Datacenter("datacenter2") {
		names = append(names, n.Datacenter())
	}
	if got := strings.Join(names, " "); got != "datacenter2 datacenter2 datacenter2" {
		t.Fatalf("the second data center has the nodes %q", got)
	}
	near, everywhere := tablesOf(t, ring, 0, "near", key), tablesOf(t, ring, 0, "everywhere", key)
	do := func(c *client.Client, method, path, body, etag string) *client.Response {
		t.Helper()
		r := client.Request{Method: method, Path: path,
			Header: map[string]string{"Accept": "application/json;odata=nometadata"}}
		if body != "" {
			r.Body = []byte(body)
		}
		if etag != "" {
			r.Header["If-Match"] = etag
		}
		a, err := c.Do(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for _, c := range []*client.Client{near, everywhere} {
		for _, a := range []*client.Response{do(c, "POST", "/Tables", `{"TableName": "users"}`, ""),
			do(c, "POST", "/users", `{"PartitionKey": "a", "RowKey": "1", "Name": "Ada"}`, "")} {
			if a.Status != http.StatusCreated {
				t.Fatal(a.Status, string(a.Body))
			}
		}
	}
	session := lostDatacenterSession(t, ring)
	for _, n := range ring.Datacenter("datacenter2") {
		if err := n.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range ring.Datacenter("datacenter2") {
		if err := ring.AwaitDown(t.Context(), n.Index()); err != nil {
			t.Fatal(err)
		}
	}
	read := do(near, "GET", "/users(PartitionKey='a',RowKey='1')", "", "")
	if read.Status != http.StatusOK || !strings.Contains(string(read.Body), `"Ada"`) {
		t.Fatal(read.Status, string(read.Body))
	}
	replaced := do(near, "PUT", "/users(PartitionKey='a',RowKey='1')", `{"Name": "Grace"}`, read.Header.Get("ETag"))
	if replaced.Status != http.StatusNoContent {
		t.Fatal(replaced.Status, string(replaced.Body))
	}
	if again := do(near, "PUT", "/users(PartitionKey='a',RowKey='1')", `{"Name": "Edsger"}`,
		read.Header.Get("ETag")); again.Status != http.StatusPreconditionFailed {
		t.Errorf("a replacement with the old etag: %d", again.Status)
	}
	if found := do(near, "GET", "/users()", "", ""); found.Status != http.StatusOK ||
		!strings.Contains(string(found.Body), `"Grace"`) {
		t.Error(found.Status, string(found.Body))
	}
	if refused := do(everywhere, "GET", "/users(PartitionKey='a',RowKey='1')", "", ""); refused.Status < 500 {
		t.Errorf("a read at QUORUM: %d", refused.Status)
	}
	checkConditionalChanges(t, session)
}

// lostDatacenterSession returns a session of the first node with a table on both data centers.
func lostDatacenterSession(t *testing.T, ring *cqldtest.Cluster) *gocql.Session {
	t.Helper()
	c := gocql.NewCluster(ring.Addresses()[0])
	c.Port, c.Logger, c.DisableInitialHostLookup, c.NumConns = ring.Port(), quiet{}, true, 1
	session, err := c.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeSession(session) })
	exec(t, session, "CREATE KEYSPACE k WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 3, "+
		"'datacenter2': 3}")
	exec(t, session, "CREATE TABLE k.t (k int PRIMARY KEY, v int)")
	return session
}

func checkConditionalChanges(t *testing.T, session *gocql.Session) {
	t.Helper()
	for _, c := range []struct {
		commit  gocql.Consistency
		refused bool
	}{{gocql.EachQuorum, true}, {gocql.Quorum, true}, {gocql.All, true}, {gocql.LocalQuorum, false}} {
		q := session.Query("INSERT INTO k.t (k, v) VALUES (1, 1) IF NOT " +
			"EXISTS").Consistency(c.commit).SerialConsistency(gocql.LocalSerial)
		applied, err := q.MapScanCAS(map[string]any{})
		var unavailable *gocql.RequestErrUnavailable
		if errors.As(err, &unavailable) != c.refused || applied == c.refused {
			t.Errorf("a commit at %v: applied %v, %v", c.commit, applied, err)
		}
	}
}
