package node

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cqld/azuretables/client"
	"cqld/integration/cqlclient"
	"cqld/internal/await"
	"cqld/node/config"
	"cqld/row"
)

// A panic on any path ends only its request: it is counted once and logged once with its stack, no lock remains held,
// and other requests continue.
func TestPanicEndsOnlyItsRequestOnEveryPath(t *testing.T) {
	r := openNodes(t, 66, 2, func(o *config.Options) {
		o.Timeouts.Read, o.Timeouts.Write = 10*time.Second,
			10*time.Second
	})
	c, bystander := r.connect(0), r.connect(0)
	r.fill(c, "2", 10)
	r.query(c, "CREATE KEYSPACE alone WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	r.query(c, "CREATE TABLE alone.t (a int PRIMARY KEY, v int)")
	r.query(c, "CREATE TABLE k.other (a int PRIMARY KEY, v int)")
	tables := r.tables(0)
	if status, err := r.ask(tables, client.Request{Method: "POST", Path: "/Tables",
		Body: []byte(`{"TableName":"races"}`)}); status != 201 {
		t.Fatalf("create a table: %d, %v", status, err)
	}
	if status, err := r.ask(tables, client.Request{Method: "PUT", Path: client.EntityPath("races", "p", "r"),
		Body: []byte(`{}`)}); status != 204 {
		t.Fatalf("insert an entity: %d, %v", status, err)
	}
	kt, alone, races := r.storage("k", "t"), r.storage("alone", "t"), r.storage("devstoreaccount1", "races")
	boom := func(name string) { panic("the defect of " + name) }
	read := func(name string) func(*row.ReadCommand) error {
		return func(*row.ReadCommand) error { boom(name); return nil }
	}
	fails := func(text string) func() error {
		return func() error {
			var refusal *refused
			if _, err := send(c, text, cqlclient.Options{}); !errors.As(err, &refusal) {
				return fmt.Errorf("%s: answered with %v", text, err)
			}
			return nil
		}
	}
	works := func(text string) func() error {
		return func() error {
			_, err := send(c, text, cqlclient.Options{})
			return err
		}
	}
	failed := func(req client.Request) func() error {
		return func() error {
			if status, err := r.ask(tables, req); err != nil || status != 500 {
				return fmt.Errorf("%s %s: %d, %v", req.Method, req.Path, status, err)
			}
			return nil
		}
	}
	for _, path := range []struct {
		name, where string
		fault       func()
		request     func() error // must fail
		after       string       // on the same partition, without the fault
	}{
		{"a condition that two nodes vote on", "condition",
			func() { r.faults[0].table, r.faults[0].cas = kt, func() { boom("a condition that two nodes vote on") } },
			fails("INSERT INTO k.t (a, v) VALUES (1, 2) IF NOT EXISTS"), "UPDATE k.t SET v = 3 WHERE a = 1 IF v = 1"},
		{"a condition of one voter", "condition", func() {
			r.faults[0].table, r.faults[0].cas = alone,
				func() { boom("a condition of one voter") }
		},
			fails("INSERT INTO alone.t (a, v) VALUES (1, 2) IF NOT EXISTS"),
			"INSERT INTO alone.t (a, v) VALUES (1, 2) IF NOT EXISTS"},
		{"a read of this replica", "replica read", func() {
			r.faults[0].table, r.faults[0].read = alone,
				read("a read of this replica")
		},
			fails("SELECT * FROM alone.t"), "SELECT * FROM alone.t"},
		{"a read of another replica", "replica read", func() {
			r.faults[1].table, r.faults[1].read = alone,
				read("a read of another replica")
		},
			fails("SELECT * FROM alone.t"), "SELECT * FROM alone.t"},
		{"the read of a conditional change's acceptor", "replica read", func() {
			r.faults[1].table, r.faults[1].read = kt, onceOnly(read("the read of a conditional change's acceptor"))
		},
			fails("UPDATE k.t SET v = 5 WHERE a = 2 IF v = 2"), "UPDATE k.t SET v = 5 WHERE a = 2 IF v = 2"},
		{"a virtual table", "CQL request", func() { r.faults[0].virtual = func() { boom("a virtual table") } },
			fails("SELECT * FROM system_views.settings"), "SELECT * FROM system_views.settings"},
		{"what follows a write", "answer to a write", func() {
			r.faults[0].table, r.faults[0].applied = kt,
				func() { boom("what follows a write") }
		},
			works("INSERT INTO k.t (a, v) VALUES (3, 4)"), "INSERT INTO k.t (a, v) VALUES (3, 4)"},
		{"a Tables query", "replica read", func() {
			r.faults[0].table, r.faults[0].read = races,
				onceOnly(read("a Tables query"))
		},
			failed(client.Request{Method: "GET", Path: "/races()", Query: "$filter=a%20eq%201"}), "SELECT * FROM k.t"},
		{"a timer", "timer", func() { r.nodes[0].clock.After(0, func() { boom("a timer") }) },
			works("SELECT * FROM k.t"), "SELECT * FROM k.t"},
		{"a background job", "background job", func() { r.nodes[0].running.Go(func() { boom("a background job") }) },
			works("SELECT * FROM k.t"), "SELECT * FROM k.t"},
	} {
		before := r.panics()
		r.faults[0].set(func() { r.faults[1].set(path.fault) })
		if err := path.request(); err != nil {
			t.Errorf("%s: %v", path.name, err)
		}
		r.query(bystander, "INSERT INTO k.other (a, v) VALUES (1, 1)")
		for _, f := range r.faults {
			f.set(func() { f.read, f.applied, f.cas, f.virtual = nil, nil, nil, nil })
		}
		if _, err := send(c, path.after, cqlclient.Options{Consistency: 5}); err != nil {
			t.Errorf("%s: after it: %v", path.name, err)
		}
		r.query(bystander, "SELECT * FROM k.other")
		want := before
		want[path.where]++
		r.eventually(path.name+": the counts", func() bool { return fmt.Sprint(r.panics()) == fmt.Sprint(want) })
		logged := func() int { return strings.Count(r.log.String(), `panic="the defect of `+path.name+`"`) }
		r.eventually(path.name+": the log", func() bool { return logged() > 0 }) // it is written after the count
		if n := logged(); n != 1 {
			t.Errorf("%s: logged %d times", path.name, n)
		}
	}
	if !strings.Contains(r.log.String(), "panic_test.go") {
		t.Error("the log has no stacks")
	}
}

// onceOnly returns a function that calls f for one command only.
func onceOnly(f func(*row.ReadCommand) error) func(*row.ReadCommand) error {
	called := false
	return func(cmd *row.ReadCommand) error {
		if called {
			return nil
		}
		called = true
		return f(cmd)
	}
}

// panics returns the number of panics on all nodes by place.
func (r *inProcess) panics() map[string]int64 {
	out := map[string]int64{}
	for _, n := range r.nodes {
		for where, count := range n.guard.Counts() {
			out[where] += count
		}
	}
	return out
}

func (r *inProcess) eventually(what string, ok func() bool) {
	r.t.Helper()
	if !await.Reached(time.Minute, ok) {
		r.t.Errorf("%s: never, but %v", what, r.panics())
	}
}
