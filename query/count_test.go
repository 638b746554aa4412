package query

import (
	"testing"

	"cqld/ring"
)

// TestCountTakesABlob compares the arguments that count accepts with Cassandra 5.0.9: its argument is a blob, as which
// values of all types can be passed, also in parentheses.
func TestCountTakesABlob(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (p int, c int, v text, l list<int>, PRIMARY KEY (p, c))")
	exec := func(text string) error {
		_, err := p.Query(at(ring.One), s, text, &Params{})
		return err
	}
	for _, text := range []string{"INSERT INTO t (p, c, v, l) VALUES (1, 1, 'a', [1])",
		"INSERT INTO t (p, c) VALUES (2, 2)"} {
		if err := exec(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ arg, want string }{
		{"v", "1"}, {"(v)", "1"}, {"((p))", "2"}, {"(int)p", "2"}, {"(text)(v)", "1"}, {"(l)", "1"}, {"(p + 1)", "2"},
		{"(token(p))", "2"},
		{"0x01", "2"}, {"(0x01)", "2"},
		{"(p, c)", "Type error: (p, c) cannot be passed as argument 0 of function system.count of type blob"},
		{"(1)", "Type error: (1) cannot be passed as argument 0 of function system.count of type blob"},
		{"'a'", "2"},
		{"{p}", "Type error: {p} cannot be passed as argument 0 of function system.count of type blob"},
		{"p, c", "Invalid number of arguments in call to function system.count: 1 required but 2 provided"},
		{"sum(p)", "aggregate functions cannot be used as arguments of aggregate functions"},
	} {
		text := "SELECT count(" + test.arg + ") FROM t"
		if err := exec(text); err != nil {
			if err.Error() != test.want {
				t.Errorf("%s: %v", text, err)
			}
		} else if got := collectPages(t, p, s, text, 0); got != test.want+"\n" {
			t.Errorf("%s: %s", text, got)
		}
	}
}
