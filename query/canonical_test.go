package query

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"cqld/internal/wire"
	"cqld/types"
)

// canonicalTypes returns types whose values clients can send in several forms.
func canonicalTypes() []string {
	return []string{
		"set<int>",
		"map<int, text>",
		"list<frozen<set<int>>>",
		"set<frozen<set<int>>>",
		"map<frozen<set<int>>, frozen<map<int, text>>>",
		"tuple<int, frozen<set<int>>>",
		"u",
		"vector<frozen<set<int>>, 2>",
	}
}

// enteringPath is a way in which a value of type T is written to the table of TestValuesEnterInOneForm.
type enteringPath struct {
	name string
	text string // %s is the value: a marker, a literal or JSON
	wrap string // the collection that is bound: list, tuple or nothing
	json bool
}

func enteringPaths() []enteringPath {
	const keys = " WHERE k = %[1]s AND c = %[1]s"
	return []enteringPath{
		{name: "keys and a column", text: "INSERT INTO t (k, c, v) VALUES (%[1]s, %[1]s, %[1]s)"},
		{name: "a static column", text: "UPDATE t SET st = %[1]s WHERE k = %[1]s"},
		{name: "a set's element", text: "UPDATE t SET s = s + {%[1]s}" + keys, wrap: "literal"},
		{name: "a bound set", text: "UPDATE t SET s = ?" + keys, wrap: "list"},
		{name: "an added bound set", text: "UPDATE t SET s = s + ?" + keys, wrap: "list"},
		{name: "a bound list", text: "UPDATE t SET l = ?" + keys, wrap: "list"},
		{name: "an appended list", text: "UPDATE t SET l = l + ?" + keys, wrap: "list"},
		{name: "a map's key and value", text: "UPDATE t SET m[%[1]s] = %[1]s" + keys},
		{name: "a tuple's field", text: "UPDATE t SET tp = (%[1]s, 1)" + keys},
		{name: "a bound tuple", text: "UPDATE t SET tp = ?" + keys, wrap: "tuple"},
		{name: "a field", text: "UPDATE t SET ud.f = %[1]s" + keys},
		{name: "a user-defined type", text: "UPDATE t SET ud = {f: %[1]s}" + keys},
		{name: "a bound user-defined type", text: "UPDATE t SET ud = ?" + keys, wrap: "tuple"},
		{name: "a condition", text: "UPDATE t SET ud.f = %[1]s" + keys + " IF v = %[1]s"},
		{name: "IN of a condition", text: "UPDATE t SET tp = (%[1]s, 2)" + keys + " IF v IN (%[1]s)"},
		{name: "IN of keys", text: "DELETE l FROM t WHERE k IN (%[1]s) AND c IN (%[1]s)"},
		{name: "a removed element", text: "UPDATE t SET s = s - ?" + keys, wrap: "list"},
		{name: "a removed key", text: "DELETE m[%[1]s] FROM t" + keys},
		{name: "JSON", text: `INSERT INTO t JSON '{"k": %[1]s, "c": %[1]s, "v": %[1]s, "s": [%[1]s], "ud": {"f": %[1]s}, "tp": [%[1]s, 1]}'`, json: true},
		{name: "from_json", text: "INSERT INTO t (k, c, v) VALUES (from_json('%[1]s'), from_json('%[1]s'), " +
			"from_json('%[1]s'))", json: true},
		{name: "a deleted row", text: "DELETE FROM t" + keys},
	}
}

// TestValuesEnterInOneForm checks that the order of the elements of sets and maps does not matter: each path of a value
// has the same effect on a table as its canonical form.
func TestValuesEnterInOneForm(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, name := range canonicalTypes() {
		for range 8 {
			canonical, bound, literal := newFormTable(t, name), newFormTable(t, name), newFormTable(t, name)
			value := randomForm(r, canonical.typ)
			normal := canonical.typ.Normalize(value)
			for _, path := range enteringPaths() {
				if path.json && strings.HasPrefix(name, "map<frozen") {
					continue // JSON in the keys of JSON in quotes
				}
				want := canonical.enter(t, path, normal, false)
				for kind, f := range map[string]*formTable{"bound": bound, "literal": literal} {
					if got := f.enter(t, path, value, kind == "literal" && path.wrap == ""); got != want {
						t.Fatalf("%s, %s: %x entered %s as\n%s\nits canonical form %x as\n%s", name, path.name, value,
							kind, got, normal, want)
					}
				}
			}
		}
	}
}

// formTable is a table with columns that contain values of a type in every position.
type formTable struct {
	p   *Processor
	s   *Session
	typ *types.Type
}

func newFormTable(t *testing.T, name string) *formTable {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TYPE u (a frozen<set<int>>, b int)",
		fmt.Sprintf("CREATE TYPE w (f frozen<%s>)", name))
	mustQuery(t, p, s, fmt.Sprintf(`CREATE TABLE t (k frozen<%[1]s>, c frozen<%[1]s>, st frozen<%[1]s> STATIC, v frozen<%[1]s>, s set<frozen<%[1]s>>,
		l list<frozen<%[1]s>>, m map<frozen<%[1]s>, frozen<%[1]s>>, tp tuple<frozen<%[1]s>, int>, ud w, PRIMARY KEY (k, c))`, name))
	return &formTable{p, s, p.o.View.Schema().Table("ks", "t").Column("k").Type}
}

// enter writes b by a path, bound or as a literal, and renders the table.
func (f *formTable) enter(t *testing.T, path enteringPath, b []byte, literal bool) string {
	var values [][]byte
	text := path.text
	switch {
	case path.json:
		text = fmt.Sprintf(text, f.typ.AppendJSON(nil, b))
	case literal || path.wrap == "literal":
		text = fmt.Sprintf(text, f.typ.AppendLiteral(nil, b))
	default:
		text = fmt.Sprintf(strings.ReplaceAll(text, "%[1]s", "%[1]s?"), "")
		for range strings.Count(text, "?") {
			values = append(values, b)
		}
		switch path.wrap {
		case "list":
			values[0] = wire.AppendBytes(wire.AppendInt32(nil, 1), b)
		case "tuple":
			values[0] = wire.AppendBytes(nil, b)
		}
	}
	mustQuery(t, f.p, f.s, text, values...)
	r := mustQuery(t, f.p, f.s, "SELECT * FROM t")
	if r.RowCount > 1 {
		t.Errorf("%s: %s made %d rows", path.name, text, r.RowCount)
	}
	return renderRows(r) + hex.EncodeToString(r.Rows)
}

// randomForm returns a value of t that need not be canonical.
func randomForm(r *rand.Rand, t *types.Type) []byte {
	switch t.Kind() {
	case types.Int:
		return wire.AppendInt32(nil, int32(r.IntN(4)))
	case types.Text:
		return []byte{"abcd"[r.IntN(4)]}
	case types.Tuple, types.UDT:
		var b []byte
		for _, e := range t.Elems() {
			b = wire.AppendBytes(b, randomForm(r, e))
		}
		return b
	case types.Vector:
		var b []byte
		for range t.Dimensions() {
			e := randomForm(r, t.Elems()[0])
			b = append(wire.AppendUnsignedVint(b, uint64(len(e))), e...)
		}
		return b
	}
	n := 2 + r.IntN(2)
	b := wire.AppendInt32(nil, int32(n))
	for range n {
		for _, e := range t.Elems() {
			b = wire.AppendBytes(b, randomForm(r, e))
		}
	}
	return b
}
