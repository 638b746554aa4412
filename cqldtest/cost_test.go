package cqldtest_test

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"cqld/azuretables"
	"cqld/azuretables/client"
	"cqld/cqldtest"
)

// askForCost returns the custom payload with which a request requests its cost.
func askForCost() map[string][]byte { return map[string][]byte{"cqld-cost": nil} }

// costOf returns the cost in a response, without the duration, as text, and the number of replicas.
func costOf(t *testing.T, iter *gocql.Iter) (cost string, replicas int) {
	t.Helper()
	payload := iter.GetCustomPayload()
	must(t, iter.Close())
	if _, err := strconv.Atoi(string(payload["cqld-microseconds"])); err != nil {
		t.Errorf("time: %v", err)
	}
	if names := string(payload["cqld-replicas"]); names != "" {
		replicas = len(strings.Split(names, ", "))
	}
	delete(payload, "cqld-microseconds")
	delete(payload, "cqld-replicas")
	var out []string
	for _, k := range slices.Sorted(maps.Keys(payload)) {
		out = append(out, strings.TrimPrefix(k, "cqld-")+"="+string(payload[k]))
	}
	return strings.Join(out, " "), replicas
}

// TestDriversGetTheCost requests the cost of requests of each kind with gocql.
func TestDriversGetTheCost(t *testing.T) {
	c := cqldtest.Start(t, cqldtest.Nodes(4))
	s := connect(t, c.Node(0), c)
	exec(t, s, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
	exec(t, s, "CREATE TABLE k.t (a int, b int, v int, l list<int>, PRIMARY KEY (a, b))")
	exec(t, s, "CREATE TABLE k.n (a int PRIMARY KEY, n counter)")

	const nothing = "commands=0 partitions-read=0 rows-read=0 tombstones-read=0"
	figures := func(path, commands, partitions, rows, tombstones string) string {
		return "commands=" + commands + " partitions-read=" + partitions + " path=" + path + " rows-read=" + rows +
			" tombstones-read=" + tombstones
	}
	for _, step := range []struct {
		level     gocql.Consistency
		statement string
		cost      string // without bytes
		replicas  int    // 0 means any number
	}{
		{gocql.All, "INSERT INTO k.t (a, b, v) VALUES (1, 1, 1)", nothing, 3},
		{gocql.All, "INSERT INTO k.t (a, b, v) VALUES (1, 2, 2)", nothing, 3},
		{gocql.All, "INSERT INTO k.t (a, b, v, l) VALUES (1, 3, 3, [1, 2])", nothing, 3},
		{gocql.All, "INSERT INTO k.t (a, b, v) VALUES (2, 1, 4)", nothing, 3},
		{gocql.All, "DELETE FROM k.t WHERE a = 1 AND b = 2", nothing, 3},
		{gocql.All, "DELETE FROM k.t WHERE a = 2 AND b > 5", nothing, 3},
		// one replica, or more with speculation
		{gocql.One, "SELECT v FROM k.t WHERE a = 1 AND b = 1", figures("partition key", "1", "1", "1", "0"), 0},
		{gocql.All, "SELECT v FROM k.t WHERE a = 1 AND b = 1", figures("partition key", "1", "1", "1", "0"), 3},
		{gocql.All, "SELECT v FROM k.t WHERE a = 1 AND b = 2", figures("partition key", "1", "1", "0", "1"), 3},
		{gocql.All, "SELECT v FROM k.t WHERE a = 1", figures("partition key", "1", "1", "2", "1"), 3},
		{gocql.All, "SELECT v FROM k.t WHERE a IN (1, 2)", figures("partition key", "2", "2", "3", "3"), 0},
		{gocql.All, "SELECT v FROM k.t", figures("scan", "1", "2", "3", "3"), 4},
		{gocql.All, "SELECT v FROM k.t WHERE a = 1 AND b IN ()", nothing[:len("commands=0 partitions-read=0")] +
			" path=none rows-read=0 tombstones-read=0", 0},
		{gocql.One, "SELECT key FROM system.local", figures("virtual table", "1", "1", "1", "0"), 0},
		{gocql.Quorum, "INSERT INTO k.t (a, b, v) VALUES (3, 1, 1) IF NOT EXISTS",
			figures("partition key", "1", "0", "0", "0"), 3},
		{gocql.Quorum, "INSERT INTO k.t (a, b, v) VALUES (3, 1, 1) IF NOT EXISTS",
			figures("partition key", "1", "1", "1", "0"), 0},
		{gocql.Quorum, "UPDATE k.t SET v = 2 WHERE a = 3 AND b = 1 IF v = 1",
			figures("partition key", "1", "1", "1", "0"), 3},
		{gocql.All, "UPDATE k.t SET l[0] = 7 WHERE a = 1 AND b = 3", figures("partition key", "1", "1", "1", "0"), 3},
		{gocql.All, "BEGIN BATCH INSERT INTO k.t (a, b, v) VALUES (4, 1, 1); INSERT INTO k.t (a, b, v) VALUES (5, " +
			"1, 1); APPLY BATCH", nothing, 0},
	} {
		var iter *gocql.Iter
		repeat(t, func() error { // under load, a node may seem down for a moment
			iter = s.Query(step.statement).Consistency(step.level).SerialConsistency(gocql.Serial).
				CustomPayload(askForCost()).Iter()
			if iter.GetCustomPayload() == nil && !strings.Contains(step.statement, " IF ") {
				return iter.Close()
			}
			return nil
		})
		got, replicas := costOf(t, iter)
		bytes, rest, _ := strings.Cut(got, " ")
		if rest != step.cost {
			t.Errorf("%s: cost %q, want %q", step.statement, rest, step.cost)
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(bytes, "bytes-read=")); err != nil ||
			n == 0 != strings.HasPrefix(step.cost, "commands=0") {
			t.Errorf("%s: %s", step.statement, bytes)
		}
		if replicas != step.replicas && step.replicas != 0 {
			t.Errorf("%s at %s: %d replicas, want %d", step.statement, step.level, replicas, step.replicas)
		}
	}

	// gocql drops the payload of a batch without a result, so the batch has a condition.
	b := s.Batch(gocql.UnloggedBatch)
	b.CustomPayload = askForCost()
	b.Query("UPDATE k.t SET v = ? WHERE a = 1 AND b = 1 IF v = 1",
		2).Query("INSERT INTO k.t (a, b, v) VALUES (1, ?, 1)", 9)
	applied, iter, err := b.ExecCAS()
	if err != nil || !applied {
		t.Fatal(applied, err)
	}
	got, replicas := costOf(t, iter)
	if _, got, _ = strings.Cut(got, " "); got != figures("partition key", "1", "1", "1", "0") || replicas != 3 {
		t.Errorf("batch: cost %q, %d replicas", got, replicas)
	}
	for a := range 8 { // the leader is this node or another one
		for _, want := range []string{figures("partition key", "1", "0", "0", "0"),
			figures("partition key", "1", "1", "1", "0")} {
			got, replicas := costOf(t, s.Query("UPDATE k.n SET n = n + 1 WHERE a = ?",
				a).Consistency(gocql.All).CustomPayload(askForCost()).Iter())
			if _, got, _ = strings.Cut(got, " "); got != want || replicas == 0 {
				t.Errorf("update of counter %d: cost %q, want %q; %d replicas", a, got, want, replicas)
			}
		}
	}
	if payload := s.Query("SELECT v FROM k.t WHERE a = 1").Iter().GetCustomPayload(); payload != nil {
		t.Errorf("an answer has a payload that its request did not ask for: %v", payload)
	}
}

// TestTheCostHasTheFiguresOfExplainAnalyze compares the custom payload with the rows of EXPLAIN ANALYZE.
func TestTheCostHasTheFiguresOfExplainAnalyze(t *testing.T) {
	c := cqldtest.Start(t, cqldtest.Nodes(3))
	s := connect(t, c.Node(0), c)
	create(t, s, c)
	for i := range 5 {
		mustWrite(t, s, i)
	}
	for _, statement := range []string{"SELECT v FROM k.t WHERE a = 3", "SELECT v FROM k.t",
		"SELECT v FROM k.t WHERE a IN (1, 2)"} {
		iter := s.Query(statement).Consistency(gocql.All).CustomPayload(askForCost()).Iter()
		payload := iter.GetCustomPayload()
		must(t, iter.Close())
		explained := map[string]string{}
		iter = s.Query("EXPLAIN ANALYZE " + statement).Consistency(gocql.All).Iter()
		for property, value := "", ""; iter.Scan(&property, &value); {
			explained[property] = value
		}
		must(t, iter.Close())
		path, _, _ := strings.Cut(explained["path"], ":")
		for key, want := range map[string]string{
			"cqld-path": path, "cqld-replicas": explained["replicas asked"], "cqld-rows-read": explained["rows read"],
			"cqld-tombstones-read": explained["tombstones read"], "cqld-partitions-read": explained["partitions read"],
			"cqld-commands": explained["commands"], "cqld-bytes-read": explained["bytes read"],
		} {
			if got := string(payload[key]); got != want || want == "" {
				t.Errorf("%s: %s is %q, EXPLAIN ANALYZE shows %q", statement, key, got, want)
			}
		}
	}
}

// TestTablesRequestsGetTheCost requests the cost of requests to Azure Tables, which clients sign.
func TestTablesRequestsGetTheCost(t *testing.T) {
	c := cqldtest.Start(t, cqldtest.Nodes(3))
	tables, err := client.New(strings.TrimSuffix(c.TablesEndpoint(), "/"+azuretables.DevelopmentAccount),
		azuretables.DevelopmentAccount, azuretables.DevelopmentKey, 1)
	must(t, err)
	defer tables.Close()
	tables.SetTransport(c.RoundTripper())
	path := client.EntityPath("things", "p", "r1")
	insert := func(row string) client.Request {
		return client.Request{Method: http.MethodPost, Path: "/things",
			Body: []byte(`{"PartitionKey": "p", "RowKey": "` + row + `", "v": 1}`)}
	}
	must(t, func() error {
		_, err := tables.Do(patience(t), client.Request{Method: http.MethodPost, Path: "/Tables",
			Body: []byte(`{"TableName": "things"}`)})
		return err
	}())
	for _, step := range []struct {
		what    string
		request client.Request
		status  int
		figures [5]string // plan, rows, tombstones, partitions, commands
	}{
		{"insert", insert("r1"), 201, [5]string{"point", "0", "0", "0", "1"}},
		{"second insert", insert("r1"), 409, [5]string{"point", "1", "0", "1", "1"}},
		{"another insert", insert("r2"), 201, [5]string{"point", "0", "0", "0", "1"}},
		{"get", client.Request{Method: http.MethodGet, Path: path}, 200, [5]string{"point", "1", "0", "1", "1"}},
		{"delete", client.Request{Method: http.MethodDelete, Path: path, IfMatch: "*"}, 204,
			[5]string{"point", "1", "0", "1", "1"}},
		{"get what was deleted", client.Request{Method: http.MethodGet, Path: path}, 404,
			[5]string{"point", "0", "1", "1", "1"}},
		{"query", client.Request{Method: http.MethodGet, Path: "/things()", Query: "$filter=PartitionKey%20eq%20'p'"},
			200, [5]string{"row-range-scan", "1", "1", "1", "1"}},
		{"transaction", client.Transaction("things", []client.Change{
			{Method: http.MethodPost, Body: []byte(`{"PartitionKey": "p", "RowKey": "r3"}`)},
			{Method: http.MethodPut, PartitionKey: "p", RowKey: "r2", Body: []byte(`{"v": 3}`)},
		}), 202, [5]string{"point", "1", "0", "1", "1"}},
		{"query of a range of partitions", client.Request{Method: http.MethodGet, Path: "/things()",
			Query: "$filter=PartitionKey%20gt%20'a'"}, 200,
			[5]string{"partition-range-scan", "2", "1", "1", "1"}},
		{"query of the table", client.Request{Method: http.MethodGet, Path: "/things()", Query: "$filter=v%20eq%203"},
			200, [5]string{"table-scan", "2", "1", "1", "1"}},
	} {
		r := step.request
		r.Header = maps.Clone(r.Header)
		if r.Header == nil {
			r.Header = map[string]string{}
		}
		r.Header["x-cqld-cost"] = "true"
		answer, err := tables.Do(patience(t), r)
		if err != nil {
			t.Fatal(step.what, err)
		}
		h := answer.Header
		got := [5]string{h.Get("x-cqld-plan"), h.Get("x-cqld-rows-scanned"), h.Get("x-cqld-tombstones-scanned"),
			h.Get("x-cqld-partitions-scanned"), h.Get("x-cqld-commands")}
		if answer.Status != step.status || got != step.figures {
			t.Errorf("%s: status %d, cost %q, want %d, %q\n%s", step.what, answer.Status, got, step.status,
				step.figures, answer.Body)
		}
		if n, err := strconv.Atoi(h.Get("x-cqld-replicas")); err != nil || n < 2 || n > 3 {
			t.Errorf("%s: %q replicas", step.what, h.Get("x-cqld-replicas"))
		}
		if n, err := strconv.Atoi(h.Get("x-cqld-bytes-read")); err != nil || n == 0 {
			t.Errorf("%s: %q bytes", step.what, h.Get("x-cqld-bytes-read"))
		}
		if _, err := strconv.Atoi(h.Get("x-cqld-microseconds")); err != nil {
			t.Errorf("%s: %v", step.what, err)
		}
	}
}
