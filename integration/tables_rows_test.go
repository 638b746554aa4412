//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"cqld/azuretables"
	"cqld/azuretables/client"
	"cqld/integration/process"
)

// gocqlSession returns a session with the shared ring in the development account's keyspace.
func gocqlSession(t *testing.T) *gocql.Session {
	t.Helper()
	cluster := gocql.NewCluster(strings.Split(sharedRing(t).Addresses(), ",")...)
	cluster.Consistency, cluster.Timeout, cluster.Keyspace = gocql.Quorum, 10*time.Second,
		azuretables.DevelopmentAccount
	session, err := cluster.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	return session
}

// fields returns an entity's properties in JSON, without those of the service.
func fields(t *testing.T, r *client.Response) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := json.Unmarshal(r.Body, &out); err != nil {
		t.Fatal(err)
	}
	for name := range out {
		if strings.HasPrefix(name, "odata.") || name == "Timestamp" {
			delete(out, name)
		}
	}
	return out
}

func minimal(r client.Request) client.Request {
	r.Header = map[string]string{"Accept": "application/json;odata=minimalmetadata"}
	return r
}

// TestTablesRowsWrittenByHTTP shows that an entity with properties of every type is a row with typed columns.
func TestTablesRowsWrittenByHTTP(t *testing.T) {
	a := askTables(t, sharedRing(t))
	a.create("ByHttp")
	a.must(1, insert("ByHttp", `{"PartitionKey":"New York__Full","RowKey":"1234__John__M__55","name":"John","age":55,"finished":true,"hours":4.25,
		"steps@odata.type":"Edm.Int64","steps":"9000000000","born@odata.type":"Edm.DateTime","born":"1955-06-01T12:00:00.1234567Z",
		"id@odata.type":"Edm.Guid","id":"c9da6455-213d-42c9-9a79-3e9149a57833","photo@odata.type":"Edm.Binary","photo":"AP8B"}`), 204)
	session := gocqlSession(t)
	row := map[string]any{}
	if err := session.Query(`SELECT * FROM byhttp WHERE "PartitionKey" = 'New York__Full' AND "RowKey" = '1234__John__M__55'`).MapScan(row); err != nil {
		t.Fatal(err)
	}
	id, err := gocql.ParseUUID("c9da6455-213d-42c9-9a79-3e9149a57833")
	if err != nil {
		t.Fatal(err)
	}
	for column, want := range map[string]any{"name": "John", "age": 55, "finished": true, "hours": 4.25,
		"steps": int64(9000000000), "id": id, "photo": []byte{0, 255, 1},
		"born": time.Date(1955, 6, 1, 12, 0, 0, 123e6, time.UTC), "born@ticks": int16(4567)} {
		if !reflect.DeepEqual(row[column], want) {
			t.Errorf("column %s is %T %v, want %T %v", column, row[column], row[column], want, want)
		}
	}
	a.must(2, client.Request{Method: "PATCH", Path: client.EntityPath("ByHttp", "New York__Full", "1234__John__M__55"),
		Body: []byte(`{"age":"fifty-five"}`), IfMatch: "*"}, 204)
	row = map[string]any{}
	if err := session.Query(`SELECT age, "age@Edm.String" FROM byhttp`).MapScan(row); err != nil {
		t.Fatal(err)
	}
	if row["age@Edm.String"] != "fifty-five" {
		t.Errorf("a property of two types: %v", row)
	}
	var age *int
	if err := session.Query(`SELECT age FROM byhttp`).Scan(&age); err != nil || age != nil {
		t.Errorf("the value of the former type still exists: %v %v", age, err)
	}
	a.must(3, client.Request{Method: "DELETE", Path: client.EntityPath("ByHttp", "New York__Full",
		"1234__John__M__55"), IfMatch: "*"}, 204)
	if n := session.Query(`SELECT * FROM byhttp`).Iter().NumRows(); n != 0 {
		t.Errorf("%d rows after a delete", n)
	}
	limited := insert("ByHttp", `{"PartitionKey":"p","RowKey":"ttl","v":1}`)
	limited.Header["x-cqld-ttl"] = "600"
	a.must(0, limited, 204)
	var ttl int
	if err := session.Query(`SELECT ttl(v) FROM byhttp WHERE "PartitionKey" = 'p' AND "RowKey" = 'ttl'`).Scan(&ttl); err != nil || ttl < 500 || ttl > 600 {
		t.Errorf("ttl %d %v", ttl, err)
	}
}

// TestTablesRowsWrittenByCQL shows that a row written in CQL is an entity with typed properties, also in a table
// created in CQL.
func TestTablesRowsWrittenByCQL(t *testing.T) {
	a := askTables(t, sharedRing(t))
	a.create("ByCql")
	a.must(0, insert("ByCql", `{"PartitionKey":"p","RowKey":"first","n":1}`), 204)
	session := gocqlSession(t)
	for _, s := range []string{
		`INSERT INTO bycql ("PartitionKey", "RowKey", n) VALUES ('p', 'second', 2)`,
		`ALTER TABLE bycql ADD (txt text, small smallint, f float, tu timeuuid, big bigint, b blob, ts timestamp, v varint, l list<int>)`,
		`INSERT INTO bycql ("PartitionKey", "RowKey", n, txt, small, f, big, b, ts, v, l) VALUES ('p', 'third', 3, 'Grüße', 7, 1.5, 9000000000, 0x00ff, '2020-01-02T03:04:05.678Z', 12345678901234567890, [1, 2])`,
		`CREATE TABLE registrations (race text, runner text, bib int, finished boolean, PRIMARY KEY (race, runner)) WITH CLUSTERING ORDER BY (runner DESC)`,
		`INSERT INTO registrations (race, runner, bib, finished) VALUES ('2011 New York City Marathon__Full', '1234__John__M__55', 1234, true)`,
		`INSERT INTO registrations (race, runner, bib) VALUES ('2011 New York City Marathon__Full', '0001__Ann__F__30', 1)`,
	} {
		if err := session.Query(s).Exec(); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	for node := range 4 {
		third := fields(t, a.must(node, minimal(get("ByCql", "p", "third")), 200))
		for name, want := range map[string]any{"n": 3.0, "txt": "Grüße", "small": 7.0, "f": 1.5, "big": "9000000000",
			"big@odata.type": "Edm.Int64", "b": "AP8=", "b@odata.type": "Edm.Binary",
			"ts": "2020-01-02T03:04:05.678Z", "ts@odata.type": "Edm.DateTime", "v": "12345678901234567890",
			"l": "[1, 2]"} {
			if third[name] != want {
				t.Errorf("node %d: property %s is %v, want %v", node+1, name, third[name], want)
			}
		}
	}
	if got := fields(t, a.must(1, minimal(get("ByCql", "p", "second")), 200)); !reflect.DeepEqual(got,
		map[string]any{"PartitionKey": "p", "RowKey": "second", "n": 2.0}) {
		t.Errorf("the second: %v", got)
	}
	r := a.must(2, filtered("Registrations", "PartitionKey eq '2011 New York City Marathon__Full'", ""), 200)
	var page struct {
		Value []struct {
			RowKey string
			Bib    int
		}
	}
	if err := json.Unmarshal(r.Body, &page); err != nil || len(page.Value) != 2 ||
		page.Value[0].RowKey != "0001__Ann__F__30" || page.Value[1].Bib != 1234 {
		t.Errorf("a table made by CQL: %s", r.Body)
	}
	a.must(3, client.Request{Method: "PATCH", Path: client.EntityPath("registrations",
		"2011 New York City Marathon__Full", "0001__Ann__F__30"), Body: []byte(`{"finished":true}`), IfMatch: "*"}, 204)
	var finished bool
	if err := session.Query(`SELECT finished FROM registrations WHERE race = '2011 New York City Marathon__Full' AND runner = '0001__Ann__F__30'`).Scan(&finished); err != nil || !finished {
		t.Errorf("merged over HTTP: %v %v", finished, err)
	}
}

// TestTablesReflectCQLChanges checks that times to live, deletes and updates in CQL affect entities; an update changes
// the ETag.
func TestTablesReflectCQLChanges(t *testing.T) {
	a := askTables(t, sharedRing(t))
	a.create("Mixed")
	a.must(0, insert("Mixed", `{"PartitionKey":"p","RowKey":"r","n":1,"s":"x"}`), 204)
	session := gocqlSession(t)
	before := a.must(0, get("Mixed", "p", "r"), 200).Header.Get("ETag")
	exec := func(s string) {
		t.Helper()
		if err := session.Query(s).Exec(); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	const key = ` WHERE "PartitionKey" = 'p' AND "RowKey" = 'r'`
	exec("UPDATE mixed SET n = 2" + key)
	r := a.must(1, get("Mixed", "p", "r"), 200)
	if r.Header.Get("ETag") == before || !strings.Contains(string(r.Body), `"n":2`) {
		t.Errorf("after an update in CQL: %s %s, before %s", r.Header.Get("ETag"), r.Body, before)
	}
	a.must(2, client.Request{Method: "PUT", Path: client.EntityPath("Mixed", "p", "r"), Body: []byte(`{"n":3}`),
		IfMatch: before}, 412)
	exec("DELETE n FROM mixed" + key)
	if got := fields(t, a.must(3, get("Mixed", "p", "r"), 200)); !reflect.DeepEqual(got,
		map[string]any{"PartitionKey": "p", "RowKey": "r", "s": "x"}) {
		t.Errorf("after a column was deleted: %v", got)
	}
	exec("UPDATE mixed USING TTL 600 SET s = 'gone one day'" + key)
	if got := fields(t, a.must(0, get("Mixed", "p", "r"), 200)); got["s"] != "gone one day" {
		t.Errorf("with a time to live: %v", got)
	}
	exec("UPDATE mixed USING TTL 1 SET s = 'gone soon'" + key) // it may expire at once: seconds are counted whole
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		got := fields(t, a.must(1, get("Mixed", "p", "r"), 200))
		if got["s"] == nil {
			break
		}
		if got["s"] != "gone soon" || time.Now().After(end) {
			t.Fatalf("after its time to live: %v", got)
		}
	}
	exec("DELETE FROM mixed" + key)
	a.must(2, get("Mixed", "p", "r"), 404)
	a.must(3, insert("Mixed", `{"PartitionKey":"p","RowKey":"r","n":4}`), 204)
	exec(`DELETE FROM mixed WHERE "PartitionKey" = 'p'`)
	a.must(0, get("Mixed", "p", "r"), 404)
	exec("DROP TABLE mixed")
	for node := range 4 {
		if code := a.must(node, get("Mixed", "p", "r"), 404).Code(); code != "TableNotFound" {
			t.Errorf("node %d: %s after DROP TABLE", node+1, code)
		}
	}
}

// TestTablesInCqlsh shows an entity in cqlsh.
func TestTablesInCqlsh(t *testing.T) {
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	cqlsh := filepath.Join(root, ".tools/python/bin/cqlsh")
	if !exists(cqlsh) {
		missing(t, "cqlsh", fmt.Sprintf(installHint, "python"))
	}
	a := askTables(t, sharedRing(t))
	a.create("InCqlsh")
	a.must(0, insert("InCqlsh", `{"PartitionKey":"p","RowKey":"r","age":39,"large@odata.type":"Edm.Int64","large":"933311100","yes":true}`), 204)
	host, port, err := net.SplitHostPort(sharedRing(t).Servers[2].Address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(cqlsh, host, port, "-e", `SELECT * FROM devstoreaccount1.incqlsh; DESCRIBE TABLE devstoreaccount1.incqlsh`).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text := strings.Join(strings.Fields(string(out)), " ")
	for _, want := range []string{"PartitionKey | RowKey | age | large | yes", "p | r | 39 | 933311100 | True",
		`PRIMARY KEY ("PartitionKey", "RowKey")`, "age int", "large bigint", "yes boolean"} {
		if !strings.Contains(text, want) {
			t.Errorf("cqlsh does not show %q:\n%s", want, out)
		}
	}
}
