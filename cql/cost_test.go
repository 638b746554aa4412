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
		if _, err := Parse(text); err != nil { // warms up the parser's caches
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

// TestParseBytesOfBlob: a blob with one word is not charged as if it had many.
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

// TestParseBytesCountsShortWords compares the tokens that ParseBytes counts with the lexer's tokens, for every
// repetition of a few characters: characters that end a number, start a duration or a name, or are tokens.
func TestParseBytesCountsShortWords(t *testing.T) {
	const repeated = 8
	p := newParser()
	texts := []string{"12345678-1234-1234-1234-123456789abc",
		"-12345678-1234-1234-1234-1d1e1d1e1d1e", "-P1D1d1e1d",
		"P0001-01-01T00:00:12345678-1d1e-1d1e-1d1e-1d1e1d1e1d1e", "1\u00b5s1_1_1", "1\u00b5s1d1e1d",
		"1d0x1g", "\u00e91_a",
		"1e+12345678-1234-1234-1234-123456789abc", "1.12345678-1234-1234-1234-123456789abc",
		"1.e5_1_1_1", "1.E5_1_1_1", "1.e-5_1_1_1", "1.e+5_1_1_1", "1.e5d_1_1", "a.e5_1_1_1"}
	last := []string{""}
	for range 3 {
		var longer []string
		for _, text := range last {
			for _, c := range []string{"0", "1", "d", "e", "g", "x", "X", "P", "T", "_", "-", ".", "+", "'", "$", "/",
				"\u00b5s"} {
				longer = append(longer, text+c)
			}
		}
		texts, last = append(texts, longer...), longer
	}
	// Longer words, of characters that follow each other without a space. Some start with an exponent after a point,
	// which three characters cannot contain.
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 10_000 {
		var b strings.Builder
		if i%4 == 0 {
			b.WriteString("1.e0")
		}
		for range 4 + r.IntN(8) {
			b.WriteByte("001ddegxPDT_-."[r.IntN(14)])
		}
		texts = append(texts, b.String())
	}
	for _, part := range texts {
		text := strings.Repeat(part, repeated)
		p.read(text)
		p.tokens.Fill()
		tokens := p.tokens.Size()
		parsed, kept := ParseBytes(text)
		if wide := len(text) * wideByte; !ascii(text) {
			parsed -= wide
		}
		if parsed-kept < tokens*tokenParsed {
			t.Errorf("%q: %d tokens, but memory for %d", text, tokens, (parsed-kept)/tokenParsed)
		}
	}
}

// TestParseBytesBoundsShortWords is TestParseBytesBound for random texts of few characters. Most of them are not
// statements: their tokens take memory before the parser refuses them. A float takes more memory in the lexer, which
// frees it immediately.
func TestParseBytesBoundsShortWords(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	texts := []string{"1a", "1x", "1d1e1d", "0x0g", "1_", "1d1"}
	for range 60 {
		var b strings.Builder
		for range 1 + r.IntN(6) {
			b.WriteByte("01aexdP_-(,"[r.IntN(11)])
		}
		texts = append(texts, b.String())
	}
	for _, part := range texts {
		for _, frame := range []string{"", "SELECT ", "SELECT a FROM t WHERE a = "} {
			text := frame + strings.Repeat(part, 1000)
			_, _ = Parse(text) // warms up the parser's caches
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _ = Parse(text)
			runtime.ReadMemStats(&after)
			// noise is the size of a message.
			const noise = 64 << 10
			parsed, _ := ParseBytes(text)
			// A text with an error is parsed twice; the first tree is then garbage.
			if n := int(after.TotalAlloc - before.TotalAlloc); n > 2*parsed+noise {
				t.Errorf("%q: allocated %d bytes, ParseBytes says %d", part, n, parsed)
			}
		}
	}
}

// TestParseBytesCountsWideBytes: a single non-ASCII byte makes the lexer copy the text.
func TestParseBytesCountsWideBytes(t *testing.T) {
	for _, text := range []string{"SELECT 'é'", "SELECT $$é$$", "SELECT 1 -- é\n", "SELECT 1 /* é */", "é"} {
		wide, kept := ParseBytes(text)
		narrow, _ := ParseBytes(strings.ReplaceAll(text, "é", "ee"))
		if wide-narrow < wideByte*len(text)-tokenParsed*2 || wide < kept+wideByte*len(text) || wide == narrow {
			t.Errorf("%q takes %d bytes, and %d without the character", text, wide, narrow)
		}
	}
}
