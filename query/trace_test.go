package query

import (
	"strings"
	"testing"

	"cqld/internal/wire"
	"cqld/ring"
)

// Traces of prepared statements contain the bound values with the names of their markers, in the form in which Cassandra 5.0.9 shows
// them; statements that are sent as text with values contain none.
func TestTracesShowBoundValues(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (p int, c int, v text, m map<text, int>, l frozen<list<int>>, b blob, PRIMARY KEY (p, c))")
	parameters := func(r *Result) string {
		return collectPages(t, p, s, "SELECT parameters FROM system_traces.sessions WHERE session_id = "+wireUUID(r.TracingID), 0)
	}
	value := func(b ...byte) wire.Value { return wire.BytesValue(b) }
	text := "INSERT INTO t (p, c, v, m, l, b) VALUES (?, :name, ?, ?, ?, ?)"
	prepared, err := p.Prepare(at(ring.One), s, text, "")
	if err != nil {
		t.Fatal(err)
	}
	execute := func(values ...wire.Value) string {
		t.Helper()
		r, err := p.Execute(at(ring.One), s, prepared.Prepared.ID, &Params{Tracing: true, Values: values})
		if err != nil {
			t.Fatal(err)
		}
		return parameters(r)
	}
	got := execute(value(0, 0, 0, 1), value(0, 0, 0, 4), wire.BytesValue([]byte("it's")),
		value(0, 0, 0, 1, 0, 0, 0, 1, 'a', 0, 0, 0, 4, 0, 0, 0, 1), wire.Value{Kind: wire.ValueUnset}, wire.Value{})
	for _, want := range []string{
		"'bound_var_0_p': '1'", "'bound_var_1_name': '4'", "'bound_var_2_v': '''it''''s'''", "'bound_var_3_m': '{''a'': 1}'",
		"'bound_var_4_l': '<unset>'", "'bound_var_5_b': 'null'", "'query': '" + text + "'",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	got = execute(value(0, 0, 0, 1), value(0, 0, 0, 4), wire.BytesValue([]byte(strings.Repeat("é", 2000))), wire.Value{}, wire.Value{},
		wire.BytesValue(make([]byte, 499)))
	for _, want := range []string{
		"'bound_var_2_v': '''" + strings.Repeat("é", 999) + "...'''", "'bound_var_5_b': '0x" + strings.Repeat("00", 499) + "'",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%.40s… is not in %s", want, got)
		}
	}
	r, err := p.Query(at(ring.One), s, "DELETE FROM t WHERE p = ?",
		&Params{Tracing: true, Values: []wire.Value{value(0, 0, 0, 1)}})
	if err != nil {
		t.Fatal(err)
	}
	if got := parameters(r); strings.Contains(got, "bound_var") {
		t.Error(got)
	}
}
