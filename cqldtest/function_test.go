package cqldtest_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"cqld/cqldtest"
	"cqld/node/config"
)

// TestFunctions defines functions at one node of a ring, and calls them with a driver at another one.
func TestFunctions(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			x := startFunctions(t, nodes)
			x.languages(t)
			x.replace(t)
			x.aggregates(t)
			x.drops(t)
			x.endless(t)
			x.slow(t)
		})
	}
}

// functions is a ring whose first node defines functions, and whose last node calls them.
type functions struct {
	define, call *gocql.Session
}

func startFunctions(t *testing.T, nodes int) *functions {
	ring := cqldtest.Start(t, cqldtest.Nodes(nodes), cqldtest.InMemoryNetwork(),
		cqldtest.Configure(func(_ int, o *config.Options) {
			o.Functions.Limits.Steps, o.Functions.Limits.Warn = 200_000, 1
		}))
	x := &functions{connect(t, ring.Node(0), ring), connect(t, ring.Node(nodes-1), ring)}
	exec(t, x.define, fmt.Sprintf("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', "+
		"'replication_factor': %d}", nodes))
	exec(t, x.define, "CREATE TABLE k.t (a int, b int, v int, s text, PRIMARY KEY (a, b))")
	for a := range 2 {
		for b := range 4 {
			repeat(t, func() error {
				return x.define.Query("INSERT INTO k.t (a, b, v, s) VALUES (?, ?, ?, ?)", a, b, 10*a+b,
					fmt.Sprint(a, b)).Consistency(gocql.Quorum).Exec()
			})
		}
	}
	exec(t, x.define, "INSERT INTO k.t (a, b) VALUES (9, 9)")
	return x
}

// expect repeats a SELECT until the values of its column x are want, in any order: the calling node may learn of a
// definition a moment after the defining one.
func (x *functions) expect(t *testing.T, statement string, want ...any) {
	t.Helper()
	repeat(t, func() error {
		rows, err := x.call.Query(statement).Consistency(gocql.Quorum).Iter().SliceMap()
		if err != nil {
			return err
		}
		var got []string
		for _, r := range rows {
			got = append(got, fmt.Sprint(r["x"]))
		}
		var expected []string
		for _, w := range want {
			expected = append(expected, fmt.Sprint(w))
		}
		slices.Sort(got)
		slices.Sort(expected)
		if !slices.Equal(got, expected) {
			return fmt.Errorf("%s: %q, want %q", statement, got, expected)
		}
		return nil
	})
}

func refused(t *testing.T, s *gocql.Session, want, statement string) {
	t.Helper()
	if err := s.Query(statement).Exec(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, want %s", statement, err, want)
	}
}

// wasmBody returns a module in base64 with one function of an i32 that returns an i32.
func wasmBody(name string, code ...byte) string {
	module := []byte{0, 'a', 's', 'm', 1, 0, 0, 0, 1, 6, 1, 0x60, 1, 0x7F, 1, 0x7F, 3, 2, 1, 0}
	module = append(module, 7, byte(len(name)+4), 1, byte(len(name)))
	module = append(append(module, name...), 0, 0)
	module = append(module, 10, byte(len(code)+3), 1, byte(len(code)+1), 0)
	return base64.StdEncoding.EncodeToString(append(module, code...))
}

const nullOnNull, onNull = " RETURNS NULL ON NULL INPUT RETURNS ", " CALLED ON NULL INPUT RETURNS "

// languages calls functions in each language, overloads, and functions of null.
func (x *functions) languages(t *testing.T) {
	exec(t, x.define, "CREATE FUNCTION k.twice_lua (v int)"+nullOnNull+"int LANGUAGE lua AS 'return v * 2'")
	exec(t, x.define, "CREATE FUNCTION k.twice_java (v int)"+nullOnNull+"int LANGUAGE java AS 'return v * 2;'")
	double := wasmBody("twice_wasm", 0x20, 0, 0x41, 2, 0x6C, 0x0B) // local.get 0, i32.const 2, i32.mul, end
	exec(t, x.define, "CREATE FUNCTION k.twice_wasm (v int)"+nullOnNull+"int LANGUAGE wasm AS '"+double+"'")
	for _, name := range []string{"twice_lua", "twice_java", "twice_wasm"} {
		x.expect(t, "SELECT k."+name+"(v) AS x FROM k.t WHERE a = 1 AND b = 3", 26)
		x.expect(t, "SELECT k."+name+"(v) AS x FROM k.t WHERE a = 9", 0) // gocql shows null as zero
		x.expect(t, "SELECT b AS x FROM k.t WHERE a = 1 AND b = k."+name+"(1)", 2)
	}
	exec(t, x.define, "CREATE FUNCTION k.known (v int)"+onNull+"text LANGUAGE lua AS 'return v and \"yes\" or \"no\"'")
	x.expect(t, "SELECT k.known(v) AS x FROM k.t WHERE a = 9", "no")
	exec(t, x.define, "CREATE FUNCTION k.known (v text)"+onNull+"text LANGUAGE lua AS 'return v and \"text\" or "+
		"\"no text\"'")
	x.expect(t, "SELECT k.known(s) AS x FROM k.t WHERE a = 1 AND b = 1", "text")
	x.expect(t, "SELECT k.known(v) AS x FROM k.t WHERE a = 1 AND b = 1", "yes")
	refused(t, x.define, "multiple", "DROP FUNCTION k.known")
	exec(t, x.define, "DROP FUNCTION k.known (text)")
}

// replace checks that a prepared statement calls the function that replaced the one it was prepared with.
func (x *functions) replace(t *testing.T) {
	const statement = "SELECT k.twice_lua(v) AS x FROM k.t WHERE a = 1 AND b = 1"
	x.expect(t, statement, 22)
	exec(t, x.define, "CREATE OR REPLACE FUNCTION k.twice_lua (v int)"+nullOnNull+"int LANGUAGE java AS 'return v * "+
		"3;'")
	x.expect(t, statement, 33)
	exec(t, x.define, "CREATE FUNCTION IF NOT EXISTS k.twice_lua (v int)"+nullOnNull+"int LANGUAGE lua AS 'return 0'")
	x.expect(t, statement, 33)
	refused(t, x.define, "is not compatible with the return type",
		"CREATE OR REPLACE FUNCTION k.twice_lua (v int)"+nullOnNull+"text LANGUAGE lua AS 'return \"\"'")
	refused(t, x.define, "already exists", "CREATE FUNCTION k.twice_lua (v int)"+nullOnNull+"int LANGUAGE lua AS "+
		"'return 0'")
}

// aggregates calls aggregates whose states are a tuple and a user-defined type, for all rows and for groups.
func (x *functions) aggregates(t *testing.T) {
	exec(t, x.define, "CREATE TYPE k.span (low int, high int)")
	exec(t, x.define, "CREATE FUNCTION k.add_value (state tuple<int, bigint>, v int)"+onNull+`tuple<int, bigint> LANGUAGE lua
		AS 'if v then return {state[1] + 1, state[2] + v} end return state'`)
	exec(t, x.define, "CREATE FUNCTION k.mean (state tuple<int, bigint>)"+onNull+`double LANGUAGE lua
		AS 'if state[1] > 0 then return state[2] / state[1] end'`)
	exec(t, x.define, "CREATE AGGREGATE k.mean_of (int) SFUNC add_value STYPE tuple<int, bigint> FINALFUNC mean "+
		"INITCOND (0, 0)")
	exec(t, x.define, "CREATE FUNCTION k.widen (state span, v int)"+nullOnNull+`span LANGUAGE lua
		AS 'return {low = math.min(state.low, v), high = math.max(state.high, v)}'`)
	exec(t, x.define, "CREATE FUNCTION k.width (state span)"+nullOnNull+"int LANGUAGE lua AS 'return state.high - "+
		"state.low'")
	exec(t, x.define, "CREATE AGGREGATE k.width_of (int) SFUNC widen STYPE span FINALFUNC width INITCOND {low: "+
		"1000, high: -1000}")
	x.expect(t, "SELECT k.mean_of(v) AS x FROM k.t", 6.5)
	x.expect(t, "SELECT k.mean_of(v) AS x FROM k.t WHERE a = 1", 11.5)
	x.expect(t, "SELECT k.width_of(v) AS x FROM k.t WHERE a IN (0, 1)", 13)
	x.expect(t, "SELECT k.width_of(v) AS x FROM k.t WHERE a = 77", -2000)
	x.expect(t, "SELECT k.mean_of(v) AS x FROM k.t WHERE a IN (0, 1) GROUP BY a", 1.5, 11.5)
	x.expect(t, "SELECT k.twice_java(max(v)) AS x FROM k.t WHERE a IN (0, 1) GROUP BY a", 6, 26)
}

// drops checks that elements in use cannot be dropped.
func (x *functions) drops(t *testing.T) {
	refused(t, x.define, "is still referenced by aggregates", "DROP FUNCTION k.add_value")
	refused(t, x.define, "is still used by functions", "DROP TYPE k.span")
	exec(t, x.define, "DROP AGGREGATE k.mean_of")
	exec(t, x.define, "DROP FUNCTION k.add_value")
	repeat(t, func() error {
		if err := x.call.Query("SELECT k.mean_of(v) AS x FROM k.t").Exec(); err == nil ||
			!strings.Contains(err.Error(), "Unknown function") {
			return fmt.Errorf("a dropped aggregate: %w", err)
		}
		return nil
	})
}

// endless calls functions that do not end. Their calls fail, and the node continues.
func (x *functions) endless(t *testing.T) {
	spin := wasmBody("forever_wasm", 0x03, 0x40, 0x0C, 0, 0x0B, 0x41, 0, 0x0B) // loop, br 0, end, i32.const 0, end
	for language, body := range map[string]string{"lua": "while true do end",
		"java": "int i = 0; while (true) { i++; }", "wasm": spin} {
		name := "forever_" + language
		exec(t, x.define, "CREATE FUNCTION k."+name+" (v int)"+nullOnNull+"int LANGUAGE "+language+" AS '"+body+"'")
		x.expect(t, "SELECT k."+name+"(v) AS x FROM k.t WHERE a = 9", 0) // not called, but known to the other node
		refused(t, x.call, "User defined function k."+name+" : (int) -> int was stopped: ",
			"SELECT k."+name+"(v) FROM k.t WHERE a = 1 AND b = 1")
	}
	x.expect(t, "SELECT k.twice_wasm(v) AS x FROM k.t WHERE a = 1 AND b = 3", 26)
}

// slow checks Cassandra's warning of slow calls. In this ring, each call takes longer than the time for it.
func (x *functions) slow(t *testing.T) {
	iter := x.call.Query("SELECT k.twice_java(v) FROM k.t WHERE a = 1 AND b = 1").Iter()
	warnings := iter.Warnings()
	if err := iter.Close(); err != nil {
		t.Fatal(err)
	}
	if want := "User defined function k.twice_java : (int) -> int ran longer than 0ms"; !slices.Contains(warnings,
		want) {
		t.Errorf("warnings %q, want %q", warnings, want)
	}
}
