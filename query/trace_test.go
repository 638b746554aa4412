package query

import (
	"strings"
	"testing"

	"cqld/internal/wire"
	"cqld/request"
	"cqld/ring"
)

// Traces of prepared statements contain the bound values with the names of their markers, in the form in which
// Cassandra 5.0.9 shows them; statements that are sent as text with values contain none.
func TestTracesShowBoundValues(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (p int, c int, v text, m map<text, int>, l "+
		"frozen<list<int>>, b blob, PRIMARY KEY (p, c))")
	parameters := func(r *request.Request) string {
		return collectPages(t, p, s, "SELECT parameters FROM system_traces.sessions WHERE session_id = "+
			wireUUID(*r.TraceID), 0)
	}
	value := func(b ...byte) wire.Value { return wire.BytesValue(b) }
	text := "INSERT INTO t (p, c, v, m, l, b) VALUES (?, :name, ?, ?, ?, ?)"
	prepared, err := p.Prepare(at(ring.One), s, text, "")
	if err != nil {
		t.Fatal(err)
	}
	execute := func(values ...wire.Value) string {
		t.Helper()
		r := tracedAt(ring.One)
		if _, err := p.Execute(r, s, prepared.Prepared.ID, &Params{Values: values}); err != nil {
			t.Fatal(err)
		}
		return parameters(r)
	}
	got := execute(value(0, 0, 0, 1), value(0, 0, 0, 4), wire.BytesValue([]byte("it's")),
		value(0, 0, 0, 1, 0, 0, 0, 1, 'a', 0, 0, 0, 4, 0, 0, 0, 1), wire.Value{Kind: wire.ValueUnset}, wire.Value{})
	for _, want := range []string{
		"'bound_var_0_p': '1'", "'bound_var_1_name': '4'", "'bound_var_2_v': '''it''''s'''",
		"'bound_var_3_m': '{''a'': 1}'",
		"'bound_var_4_l': '<unset>'", "'bound_var_5_b': 'null'", "'query': '" + text + "'",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	got = execute(value(0, 0, 0, 1), value(0, 0, 0, 4), wire.BytesValue([]byte(strings.Repeat("é", 2000))),
		wire.Value{}, wire.Value{},
		wire.BytesValue(make([]byte, 499)))
	for _, want := range []string{
		"'bound_var_2_v': '''" + strings.Repeat("é", 999) + "...'''", "'bound_var_5_b': '0x" +
			strings.Repeat("00", 499) + "'",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%.40s… is not in %s", want, got)
		}
	}
	r := tracedAt(ring.One)
	if _, err := p.Query(r, s, "DELETE FROM t WHERE p = ?",
		&Params{Values: []wire.Value{value(0, 0, 0, 1)}}); err != nil {
		t.Fatal(err)
	}
	if got := parameters(r); strings.Contains(got, "bound_var") {
		t.Error(got)
	}
}

// Every request with the tracing flag has a trace: also PREPARE, which has no levels, and those that fail.
func TestEveryRequestHasATrace(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (p int PRIMARY KEY, v int)")
	prepared, err := p.Prepare(at(ring.One), s, "SELECT v FROM t WHERE p = 1", "")
	if err != nil {
		t.Fatal(err)
	}
	batch := func(texts ...string) func(r *request.Request) error {
		params := &BatchParams{}
		for _, text := range texts {
			params.Entries = append(params.Entries, BatchEntry{Text: text})
		}
		return func(r *request.Request) error { _, err := p.Batch(r, s, params); return err }
	}
	prepare := func(text, keyspace string) func(r *request.Request) error {
		return func(r *request.Request) error { _, err := p.Prepare(r, s, text, keyspace); return err }
	}
	query := func(text, keyspace string) func(r *request.Request) error {
		return func(r *request.Request) error { _, err := p.Query(r, s, text, &Params{Keyspace: keyspace}); return err }
	}
	for name, c := range map[string]struct {
		f          func(r *request.Request) error
		fails      bool
		parameters string
	}{
		"query":    {query("SELECT v FROM t", ""), false, "'ONE' | 'SELECT v FROM t'"},
		"invalid":  {query("SELECT w FROM t", ""), true, "'ONE' | 'SELECT w FROM t'"},
		"syntax":   {query("nonsense", ""), true, "'ONE' | '*******'"},
		"keyspace": {query("SELECT v FROM t", "nosuch"), true, "'ONE' | 'SELECT v FROM t'"},
		"execute": {func(r *request.Request) error {
			_, err := p.Execute(r, s, prepared.Prepared.ID, &Params{})
			return err
		}, false, "'ONE' | 'SELECT v FROM t WHERE p = 1'"},
		"batch":               {batch("UPDATE t SET v = 1 WHERE p = 1"), false, "'ONE' | null"},
		"refused batch":       {batch("UPDATE t SET w = 1 WHERE p = 1"), true, "'ONE' | null"},
		"prepare":             {prepare("SELECT v FROM t", ""), false, "null | 'SELECT v FROM t'"},
		"prepare of nothing":  {prepare("SELECT w FROM t", ""), true, "null | 'SELECT w FROM t'"},
		"prepare of nonsense": {prepare("nonsense", ""), true, "null | '*******'"},
		"prepare in nosuch":   {prepare("SELECT v FROM t", "nosuch"), true, "null | 'SELECT v FROM t'"},
	} {
		r := tracedAt(ring.One)
		if err := c.f(r); (err != nil) != c.fails || r.TraceID == nil {
			t.Errorf("%s: trace %v, %v", name, r.TraceID, err)
			continue
		}
		const text = "SELECT parameters['consistency_level'], parameters['query'] FROM system_traces.sessions WHERE " +
			"session_id = "
		if got := collectPages(t, p, s, text+wireUUID(*r.TraceID), 0); got != c.parameters+"\n" {
			t.Errorf("%s: parameters %s, want %s", name, got, c.parameters)
		}
		if err := c.f(at(ring.One)); (err != nil) != c.fails {
			t.Errorf("%s without a trace: %v", name, err)
		}
	}
}
