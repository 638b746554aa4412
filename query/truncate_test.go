package query

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/internal/wire"
	"cqld/ring"
	"cqld/schema"
	"cqld/schema/refused"
	"cqld/types"
)

// TestTruncateTimeoutIsBound checks that the timeout of a TRUNCATE may be a bind marker, by position or name, in a
// query and prepared, that it reaches the coordinator, and that a bad value is refused before the table is truncated.
func TestTruncateTimeoutIsBound(t *testing.T) {
	n := newOneNode()
	store := &truncateStore{n: n}
	p := New(Options{Rand: rand.New(rand.NewPCG(1, 1)), View: n, Changer: n,
		Clock: &testClock{now: time.Unix(1700000000, 0)}, Executor: over(store)})
	s := &Session{Version: 5}
	for _, text := range []string{
		"CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE k.t (p int PRIMARY KEY)",
	} {
		if _, err := p.Query(at(ring.One), s, text, &Params{}); err != nil {
			t.Fatal(err)
		}
	}
	duration := func(text string) []wire.Value {
		b, err := types.Native(types.Duration).FromText(text)
		if err != nil {
			t.Fatal(err)
		}
		return []wire.Value{wire.BytesValue(b)}
	}
	var prepared []*PreparedInfo
	for _, text := range []string{"TRUNCATE k.t USING TIMEOUT ?", "TRUNCATE TABLE k.t USING TIMEOUT :wait"} {
		r, err := p.Prepare(at(ring.One), s, text, "")
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Prepared.Binds) != 1 || r.Prepared.Binds[0].Type != types.Native(types.Duration) {
			t.Errorf("%s: binds %+v", text, r.Prepared.Binds)
		}
		prepared = append(prepared, r.Prepared)
	}
	run := func(values []wire.Value) (errs []string) {
		for _, x := range prepared {
			if _, err := p.Execute(at(ring.One), s, x.ID, &Params{Values: values}); err != nil {
				errs = append(errs, err.Error())
			}
		}
		if _, err := p.Query(at(ring.One), s, "TRUNCATE k.t USING TIMEOUT ?", &Params{Values: values}); err != nil {
			errs = append(errs, err.Error())
		}
		return errs
	}
	if errs := run(duration("3s")); errs != nil {
		t.Error(errs)
	}
	if errs := run([]wire.Value{{Kind: wire.ValueUnset}}); errs != nil { // the configured timeout
		t.Error(errs)
	}
	if _, err := p.Query(at(ring.One), s, "TRUNCATE k.t USING TIMEOUT 2s", &Params{}); err != nil {
		t.Error(err)
	}
	seconds := []int{3, 3, 3, 60, 60, 60, 2}
	if got := store.timeouts; !slices.EqualFunc(got, seconds, func(d time.Duration, s int) bool {
		return d == time.Duration(s)*time.Second
	}) {
		t.Errorf("timeouts %v, want %v in seconds", got, seconds)
	}
	for want, values := range map[string][]wire.Value{
		"days/months":                     duration("1mo"),
		"must be positive":                duration("0s"),
		"finer than milliseconds":         duration("1us"),
		"cannot be null":                  {{Kind: wire.ValueNull}},
		"but 0 bound":                     nil,
		"Invalid amount of bind variable": nil,
	} {
		if errs := run(values); len(errs) != 3 || !strings.Contains(strings.Join(errs, "\n"), want) {
			t.Errorf("%s: errors %q", want, errs)
		}
	}
	if len(store.timeouts) != len(seconds) {
		t.Errorf("a refused TRUNCATE was executed: %v", store.timeouts)
	}
}

// retaining is a Truncater that applies the change to the schema of one node.
type retaining struct {
	n   *oneNode
	err error
	got []*schema.TruncateTable
}

func (r *retaining) TruncateTable(ctx context.Context, c *schema.TruncateTable) error {
	r.got = append(r.got, c)
	if r.err != nil {
		return r.err
	}
	return r.n.ProposeSchema(ctx, c)
}

// lonely is a view of a ring whose other member may be down.
type lonely struct {
	*oneNode
	down bool
}

func (l lonely) Alive(ring.NodeID) bool { return !l.down }

func (l lonely) Topology() *ring.Topology {
	return ring.NewTopology(1, []*ring.Node{{ID: 1, Tokens: []ring.Token{1}}, {ID: 2, Tokens: []ring.Token{2}}})
}

// TestTruncateRetainsRows executes TRUNCATE with and without a grace, and while a node is down: the rows are retained
// only if they can be restored, a prepared statement stays valid, and a timeout says that the outcome is unknown.
func TestTruncateRetainsRows(t *testing.T) {
	n := newOneNode()
	store, truncater := &truncateStore{n: n}, &retaining{n: n}
	for _, x := range []struct {
		grace            time.Duration
		down             bool
		err              error
		retained, stored int
		warnings         int
		want             string
	}{
		{grace: time.Hour, retained: 1},
		{grace: 0, stored: 1},
		{grace: time.Hour, down: true, stored: 1, warnings: 1},
		{grace: time.Hour, err: context.DeadlineExceeded, retained: 1,
			want: "whether the table was truncated is unknown"},
		{grace: time.Hour, err: &refused.Unavailable{Required: 2, Alive: 1}, retained: 1, want: "QUORUM"},
	} {
		view := lonely{n, x.down}
		p := New(Options{Rand: rand.New(rand.NewPCG(1, 1)), View: view, Changer: n, Truncater: truncater,
			Clock: &testClock{now: time.Unix(1700000000, 0)}, Executor: over(store),
			DropGrace: func() time.Duration { return x.grace }})
		s := &Session{Version: 5}
		for _, text := range []string{
			"CREATE KEYSPACE IF NOT EXISTS k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
			"CREATE TABLE IF NOT EXISTS k.t (p int PRIMARY KEY)",
		} {
			if _, err := p.Query(at(ring.One), s, text, &Params{}); err != nil {
				t.Fatal(err)
			}
		}
		prepared, err := p.Prepare(at(ring.One), s, "TRUNCATE k.t", "")
		if err != nil {
			t.Fatal(err)
		}
		read, err := p.Prepare(at(ring.One), s, "SELECT p FROM k.t", "")
		if err != nil {
			t.Fatal(err)
		}
		truncater.got, truncater.err, store.timeouts = nil, x.err, nil
		r := at(ring.One)
		_, err = p.Execute(r, s, prepared.Prepared.ID, &Params{})
		if (err != nil) != (x.want != "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: %v", x, err)
		}
		if len(truncater.got) != x.retained || len(store.timeouts) != x.stored || len(r.Warnings) != x.warnings {
			t.Errorf("%+v: %d retained, %d removed, warnings %q", x, len(truncater.got), len(store.timeouts),
				r.Warnings)
		}
		if _, _, err := p.preparedPlan(read.Prepared.ID); err != nil {
			t.Errorf("%+v: a statement that was prepared before: %v", x, err)
		}
	}
}
