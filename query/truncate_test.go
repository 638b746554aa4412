package query

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/internal/wire"
	"cqld/ring"
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
