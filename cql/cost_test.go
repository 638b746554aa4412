package cql

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// TestParseBytesBound compares ParseBytes with what Parse allocates, for each production that repeats cheaply. Floats
// allocate more, but free it at once.
func TestParseBytesBound(t *testing.T) {
	const n = 4000
	for name, text := range map[string]string{
		"list":      "INSERT INTO t (a) VALUES ([" + strings.Repeat("1,", n) + "1])",
		"negative":  "INSERT INTO t (a) VALUES ([" + strings.Repeat("-1,", n) + "1])",
		"map":       "INSERT INTO t (a) VALUES ({" + strings.Repeat("1:1,", n) + "1:1})",
		"texts":     "INSERT INTO t (a) VALUES ([" + strings.Repeat("'',", n) + "''])",
		"wide":      "INSERT INTO t (a) VALUES ('" + strings.Repeat("é", n) + "')",
		"tuples":    "INSERT INTO t (a) VALUES ([" + strings.Repeat("(1,2),", n) + "1])",
		"columns":   "SELECT " + strings.Repeat("a,", n) + "a FROM t",
		"quoted":    "SELECT " + strings.Repeat(`"A",`, n) + "a FROM t",
		"calls":     "SELECT " + strings.Repeat("f(a),", n) + "a FROM t",
		"sum":       "SELECT a" + strings.Repeat("+a", n) + " FROM t",
		"IN":        "SELECT a FROM t WHERE a IN (" + strings.Repeat("?,", n) + "1)",
		"relations": "SELECT a FROM t WHERE a=1" + strings.Repeat(" AND a=1", 1000),
		"batch":     "BEGIN BATCH " + strings.Repeat("DELETE FROM t WHERE a=1;", n) + " APPLY BATCH",
		"table":     "CREATE TABLE t (" + strings.Repeat("a int,", n) + "PRIMARY KEY (a))",
		"function": "CREATE FUNCTION f (" + strings.Repeat("a int,", n) +
			"b int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE lua AS 'x'",
		"type":  "CREATE TYPE t (" + strings.Repeat("a int,", n) + "b int)",
		"short": "SELECT a FROM t WHERE a=1 AND b=2",
	} {
		if _, err := Parse(text); err != nil { // the parser caches what it predicts
			t.Errorf("%s: %v", name, err)
			continue
		}
		var before, after, left runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		stmt, err := Parse(text)
		runtime.ReadMemStats(&after)
		runtime.GC()
		runtime.ReadMemStats(&left)
		runtime.KeepAlive(stmt)
		if err != nil {
			t.Fatal(err)
		}
		const noise = 16 << 10
		parsed, kept := ParseBytes(text)
		if n := int(after.TotalAlloc - before.TotalAlloc); n > parsed+noise {
			t.Errorf("%s: allocated %d bytes, ParseBytes says %d", name, n, parsed)
		}
		if n := int(left.HeapAlloc) - int(before.HeapAlloc); n > kept+noise {
			t.Errorf("%s: kept %d bytes, ParseBytes says %d", name, n, kept)
		}
	}
}

// TestParseBytesOfBlob: a value of one word is not charged as if it had many.
func TestParseBytesOfBlob(t *testing.T) {
	for _, text := range []string{"0x" + strings.Repeat("ab", 1<<20), "'" + strings.Repeat("a b,", 1<<19) + "'", "$$" +
		strings.Repeat("a b,", 1<<19) + "$$"} {
		if parsed, _ := ParseBytes("INSERT INTO t (a) VALUES (" + text + ")"); parsed > 3*len(text) {
			t.Errorf("%d bytes for a value of %d", parsed, len(text))
		}
	}
}

// TestParseBytesCountsTheTokensOfTheLexer compares the tokens for which ParseBytes reserves memory with the tokens that
// the lexer finds, in statements made of comments, quotes, numbers and names in any order.
func TestParseBytesCountsTheTokensOfTheLexer(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	parts := []string{"'", "\"", "$$", "$", "--", "//", "/*", "*/", "*", "/", "-", "\n", "\r", " ", "k", "n_1", "_",
		"1", "12",
		"1_", ",", "(", ")", ";", "?", "+", ".", "it's", "/*/", "\t", "''", "\"\""}
	for range 20_000 {
		var b strings.Builder
		for range r.IntN(40) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		text := b.String()
		p := newParser()
		p.read(text)
		p.tokens.Fill()
		parsed, kept := ParseBytes(text)
		if tokens := p.tokens.Size(); parsed-kept < tokens*tokenParsed {
			t.Fatalf("%q: %d tokens, but memory for %d", text, tokens, (parsed-kept)/tokenParsed)
		}
	}
}

// TestParseBytesCountsWideBytes: a byte that is not ASCII makes a copy of the text, wherever it is.
func TestParseBytesCountsWideBytes(t *testing.T) {
	for _, text := range []string{"SELECT 'é'", "SELECT $$é$$", "SELECT 1 -- é\n", "SELECT 1 /* é */", "é"} {
		wide, kept := ParseBytes(text)
		narrow, _ := ParseBytes(strings.ReplaceAll(text, "é", "ee"))
		if wide-narrow < wideByte*len(text)-tokenParsed*2 || wide < kept+wideByte*len(text) || wide == narrow {
			t.Errorf("%q takes %d bytes, and %d without the character", text, wide, narrow)
		}
	}
}
