package cqldtest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"cqld/azuretables"
	"cqld/azuretables/client"
	"cqld/cqldtest"
)

// Open is for programs without a testing.TB, such as TestMain. Tests call Start, which also closes the cluster.
func ExampleOpen() {
	ring, err := cqldtest.Open(context.Background(), cqldtest.Nodes(4))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ring.Close()

	config := gocql.NewCluster(ring.Addresses()...)
	config.Port = ring.Port()
	config.Consistency = gocql.Quorum
	config.Logger = quiet{}
	session, err := config.CreateSession()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()

	for _, statement := range []string{
		"CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
		"CREATE TABLE shop.users (id int PRIMARY KEY, name text)",
		"INSERT INTO shop.users (id, name) VALUES (1, 'Ada')",
	} {
		if err := session.Query(statement).Exec(); err != nil {
			fmt.Println(err)
			return
		}
	}
	var name string
	if err := session.Query("SELECT name FROM shop.users WHERE id = 1").Scan(&name); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(name)
	// Output: Ada
}

// RoundTripper is the HTTP transport for clients of Azure Tables. Clients of the Azure SDK use TablesConnectionString;
// if the network is in memory, they also need RoundTripper as the transport of their HTTP client.
func ExampleCluster_RoundTripper() {
	ring, err := cqldtest.Open(context.Background(), cqldtest.InMemoryNetwork())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ring.Close()

	endpoint := strings.TrimSuffix(ring.TablesEndpoint(), "/"+azuretables.DevelopmentAccount)
	tables, err := client.New(endpoint, azuretables.DevelopmentAccount, azuretables.DevelopmentKey, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	tables.SetTransport(ring.RoundTripper())
	for _, r := range []client.Request{
		{Method: http.MethodPost, Path: "/Tables", Body: []byte(`{"TableName": "users"}`)},
		{Method: http.MethodPost, Path: "/users", Body: []byte(`{"PartitionKey": "a", "RowKey": "1", "Name": "Ada"}`)},
		{Method: http.MethodGet, Path: "/users(PartitionKey='a',RowKey='1')", Query: "$select=Name",
			Header: map[string]string{"Accept": "application/json;odata=nometadata"}},
	} {
		answer, err := tables.Do(context.Background(), r)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.Method, answer.Status)
		if r.Method == http.MethodGet {
			fmt.Println(string(answer.Body))
		}
	}
	// Output:
	// POST 201
	// POST 201
	// GET 200
	// {"Name":"Ada"}
}

// users is a program under test that stores names in Cassandra.
type users struct{ session *gocql.Session }

func (u users) rename(id int, name string) error {
	return u.session.Query("INSERT INTO shop.users (id, name) VALUES (?, ?)", id, name).Idempotent(true).Exec()
}

func (u users) name(id int) (name string, err error) {
	return name, u.session.Query("SELECT name FROM shop.users WHERE id = ?", id).Idempotent(true).Scan(&name)
}

// TestExampleNodeFailure shows a test of a program that must survive the loss of a node.
func TestExampleNodeFailure(t *testing.T) {
	ring := cqldtest.Start(t, cqldtest.Nodes(3))
	config := gocql.NewCluster(ring.Addresses()...)
	config.Port = ring.Port()
	config.Consistency = gocql.Quorum
	config.RetryPolicy = &gocql.SimpleRetryPolicy{NumRetries: 3}
	config.Logger = quiet{}
	session, err := config.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	exec(t, session, "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
	exec(t, session, "CREATE TABLE shop.users (id int PRIMARY KEY, name text)")
	u := users{session}
	if err := u.rename(1, "Ada"); err != nil {
		t.Fatal(err)
	}

	if err := ring.Node(1).Kill(); err != nil {
		t.Fatal(err)
	}
	if err := ring.AwaitDown(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := u.rename(1, "Grace"); err != nil {
		t.Fatal("a program that uses QUORUM survives the loss of one of three nodes:", err)
	}
	if err := ring.Node(1).Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if name, err := u.name(1); err != nil || name != "Grace" {
		t.Fatal(name, err)
	}
}

// TestExampleTables shows a test of a client of Azure Tables. With the Azure SDK, pass Cluster.TablesConnectionString
// to aztables.NewServiceClientFromConnectionString.
func TestExampleTables(t *testing.T) {
	for name, opts := range variants(t) {
		t.Run(name, func(t *testing.T) {
			ring := cqldtest.Start(t, append(opts, cqldtest.Nodes(3))...)
			endpoint := strings.TrimSuffix(ring.TablesEndpoint(), "/"+azuretables.DevelopmentAccount)
			tables, err := client.New(endpoint, azuretables.DevelopmentAccount, azuretables.DevelopmentKey, 1)
			if err != nil {
				t.Fatal(err)
			}
			tables.SetTransport(ring.RoundTripper())
			for _, r := range []client.Request{
				{Method: http.MethodPost, Path: "/Tables", Body: []byte(`{"TableName": "users"}`)},
				{Method: http.MethodPost, Path: "/users",
					Body: []byte(`{"PartitionKey": "a", "RowKey": "1", "Name": "Ada"}`)},
				{Method: http.MethodGet, Path: "/users(PartitionKey='a',RowKey='1')"},
			} {
				answer, err := tables.Do(t.Context(), r)
				if err == nil && answer.Status >= 300 {
					err = errors.New(string(answer.Body))
				}
				if err != nil {
					t.Fatalf("%s %s: %v", r.Method, r.Path, err)
				}
				if r.Method == http.MethodGet && !strings.Contains(string(answer.Body), `"Name":"Ada"`) {
					t.Fatalf("the entity is %s", answer.Body)
				}
			}
		})
	}
}
