package cql

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"cqld/internal/repetition"
)

// TestHostileTextsAreRefusedQuickly checks that nesting and size are bounded for every production that nests.
func TestHostileTextsAreRefusedQuickly(t *testing.T) {
	const many = 100_000
	repeat := strings.Repeat
	for name, text := range map[string]string{
		"lists":           "SELECT * FROM t WHERE a = " + repeat("[", many),
		"closed lists":    "SELECT * FROM t WHERE a = " + repeat("[", many) + repeat("]", many),
		"tuples":          "SELECT * FROM t WHERE a = " + repeat("(", many),
		"relations":       "SELECT * FROM t WHERE " + repeat("(", many) + "a = 1" + repeat(")", many),
		"maps":            "SELECT * FROM t WHERE a = " + repeat("{1:", many),
		"selectors":       "SELECT " + repeat("(", many) + " FROM t",
		"calls":           "SELECT " + repeat("f(", many) + " FROM t",
		"hints":           "SELECT " + repeat("(int)", many) + " a FROM t",
		"term hints":      "SELECT * FROM t WHERE a = " + repeat("(int)", many) + " 1",
		"few hints":       "SELECT " + repeat("(int)", 1000) + " a FROM t",
		"minuses":         "SELECT " + repeat("- ", many) + "a FROM t",
		"types":           "CREATE TABLE t (a " + repeat("frozen<", many) + "int" + repeat(">", many) + " PRIMARY KEY)",
		"broken types":    "CREATE TABLE t (a " + repeat("map<int,", many),
		"words":           repeat("a ", 1_000_000),
		"long text":       "SELECT '" + repeat("x", 20<<20) + "' FROM t",
		"open string":     "SELECT '" + repeat("''", 1<<20),
		"open comment":    "/*" + repeat("*", 1<<20),
		"one line":        "--" + repeat("-", 1<<20),
		"strange letters": repeat("\u20ac", 1<<18),
		"a column twice":  "UPDATE t SET " + repeat("a", many) + " = 1, " + repeat("a", many) + " = 2 WHERE k = 1",
		"an option twice": "CREATE KEYSPACE k WITH " + repeat("a", many) + " = 1 AND " + repeat("a", many) + " = 2",
		"a key twice": "CREATE KEYSPACE k WITH a = {'" + repeat("a", many) + "': 1, '" + repeat("a", many) +
			"': 2}",
		"a list as key":   "CREATE KEYSPACE k WITH a = {['" + repeat("a", many) + "']: 1}",
		"a list as value": "CREATE KEYSPACE k WITH a = {'" + repeat("a", many) + "': ['" + repeat("a", many) + "']}",
		"dimensions":      "CREATE TABLE t (a vector<int, " + repeat("1", many) + "> PRIMARY KEY)",
		"no UTF-8":        "SELECT '" + repeat("\xff", 100),
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := Parse(text)
			var syntax *SyntaxError
			if !errors.As(err, &syntax) {
				t.Fatalf("got %v", err)
			}
			if len(syntax.Msg) > 4096 && name != "no UTF-8" {
				t.Errorf("the message has %d bytes", len(syntax.Msg))
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// TestErrorOfADollarDoesNotCopyTheText checks the message for a character that starts no token: it shows one more
// character of a long text.
func TestErrorOfADollarDoesNotCopyTheText(t *testing.T) {
	text := "SELECT $" + strings.Repeat("x", 1<<20)
	_, err := Parse(text) // the lexer caches its transitions
	if err == nil || err.Error() != "line 1:8 mismatched character 'x' expecting '$'" {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _ = Parse(text)
	runtime.ReadMemStats(&after)
	if used := int(after.TotalAlloc - before.TotalAlloc); used > len(text) {
		t.Errorf("%d bytes for a text of %d", used, len(text))
	}
	for text, want := range map[string]string{
		"SELECT $":         "line 1:8 mismatched character '<EOF>' expecting '$'",
		"SELECT $é":        "line 1:8 mismatched character 'é' expecting '$'",
		"SELECT 'é' $\xff": "line 1:12 mismatched character '\ufffd' expecting '$'",
	} {
		if _, err := Parse(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestNestingWithinTheBoundIsRead checks that statements with the maximum nesting are parsed.
func TestNestingWithinTheBoundIsRead(t *testing.T) {
	repeat := strings.Repeat
	const depth = depthMax - 2
	for name, text := range map[string]string{
		"lists":     "SELECT * FROM t WHERE a = " + repeat("[", depth) + repeat("]", depth),
		"relations": "SELECT * FROM t WHERE " + repeat("(", depth) + "a = 1" + repeat(")", depth),
		"tuples":    "SELECT * FROM t WHERE a = " + repeat("(", depth) + "1" + repeat(")", depth),
		"selectors": "SELECT " + repeat("(", depth) + "a" + repeat(")", depth) + " FROM t",
		"calls":     "SELECT " + repeat("f(", depth) + "a" + repeat(")", depth) + " FROM t",
		"types": "CREATE TABLE t (a " + repeat("frozen<list<", depth/2) + "int" + repeat(">>", depth/2) +
			" PRIMARY KEY)",
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			if _, err := Parse(text); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
			t.Log(time.Since(start))
		})
	}
}

// TestManyMarkersAreRead checks the maximum number of markers that the protocol can bind.
func TestManyMarkersAreRead(t *testing.T) {
	s, err := Parse("SELECT * FROM t WHERE a IN (?" + strings.Repeat(",?", 65534) + ")")
	if err != nil {
		t.Fatal(err)
	}
	values := s.(*Select).Where[0].(*InRelation).In.Values
	if last := values[len(values)-1].(*BindMarker).Index; len(values) != 65535 || last != 65534 {
		t.Fatalf("%d markers, the last has index %d", len(values), last)
	}
}

// TestParserMemoryIsInProportionToTokens checks the bounds from which docs/limits.md computes the memory of the largest
// statement, for each production of the grammar: the lexer and the tree take less than 1,700 bytes for each token, and
// a text less than 24 bytes for each of its bytes, with errors and the copies of literals. The lexer of floats, whose
// predicate ANTLR does not cache, takes half of it.
func TestParserMemoryIsInProportionToTokens(t *testing.T) {
	for _, production := range repetition.All() {
		text := production.Text(300)
		if _, err := Parse(text); err != nil && strings.Contains(err.Error(), "nested deeper") {
			continue
		}
		most := uint64(1700*(len(tokensOf(text))+1) + 24*len(text) + 64<<10)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = Parse(text) // an error costs as much
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > most {
			t.Errorf("%s: %d bytes for %d tokens in %d bytes", production.String(), used, len(tokensOf(text)),
				len(text))
		}
	}
}
