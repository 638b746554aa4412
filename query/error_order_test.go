package query

import (
	"fmt"
	"testing"

	"cqld/ring"
)

// TestSelectorsOfStaticTablesAreResolvedFirst executes SELECTs with an error in the select clause and one in WHERE: as
// in Cassandra, the selectors of a table with static columns are resolved before WHERE, up to the one that shows
// whether only static columns are selected.
func TestSelectorsOfStaticTablesAreResolvedFirst(t *testing.T) {
	const undefined = "Undefined column name nosuch in table ks.st"
	const mistyped = `Invalid STRING constant (x) for "v" of type int`
	p, s := newTestProcessor(t, &modelStore{},
		"CREATE TABLE st (p int, c int, v int, s int STATIC, PRIMARY KEY (p, c))",
		"CREATE TABLE pl (p int, c int, v int, PRIMARY KEY (p, c))")
	for _, x := range []struct{ from, want string }{
		{"nosuch FROM st", undefined},
		{"s, nosuch FROM st", undefined},
		{"p, nosuch FROM st", undefined},
		{"v, nosuch FROM st", undefined},
		{"c, nosuch, s FROM st", undefined},
		{"sum(nosuch) FROM st", undefined},
		{"nosuch(v) FROM st", "Unknown function 'nosuch'"},
		{"c, s, nosuch FROM st", mistyped},
		{"s, v, nosuch FROM st", mistyped},
		{"v.a FROM st", mistyped},
		{"v[1] FROM st", mistyped},
		{"cast(v AS uuid) FROM st", mistyped},
		{"(nosuch)v FROM st", "Unknown type ks.nosuch"},
		{"writetime(p) FROM st", mistyped},
		{"nosuch FROM pl", mistyped},
		{"nosuch(v) FROM pl", mistyped},
	} {
		text := "SELECT " + x.from + " WHERE v = 'x'"
		if _, err := p.Query(at(ring.One), s, text, &Params{}); fmt.Sprint(err) != x.want {
			t.Errorf("%s: %v, want %s", text, err, x.want)
		}
	}
}
