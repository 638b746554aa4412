package query

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"cqld/internal/wire"
	"cqld/ring"
)

// TestKeyLengths compares statements with long keys with the answers of Cassandra 5.0.9: written keys have at most
// 65,535 bytes, the values of all columns together; reads may contain longer clusterings.
func TestKeyLengths(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (a text, b text, c text, v int, PRIMARY KEY (a, b, c))",
		"CREATE TABLE p (a text, b text, c text, v int, PRIMARY KEY ((a, b), c))")
	sum := func(n ...int) (all int) {
		for _, x := range n {
			all += x
		}
		return all
	}
	for _, c := range []struct {
		text   string
		length func(n int) int // of the key, in the error; nil if every length is valid
	}{
		{"INSERT INTO t (a, b, c, v) VALUES ('a', ?, ?, 1)", func(n int) int { return sum(n, n) }},
		{"INSERT INTO t (a, b, c, v) VALUES ('a', ?, 'x', 1)", func(n int) int { return sum(n, 1) }},
		{"INSERT INTO t (a, b, c, v) VALUES (?, 'b', 'x', 1)", func(n int) int { return n }},
		{"INSERT INTO p (a, b, c, v) VALUES (?, ?, 'x', 1)", func(n int) int {
			if all := sum(n, n); all > 65535 {
				return all
			}
			return sum(n, n, 6)
		}},
		{"SELECT * FROM t WHERE a = 'a' AND b = ?", nil},
		{"SELECT * FROM t WHERE a = 'a' AND b IN ('x', ?)", nil},
		{"SELECT * FROM t WHERE a = 'a' AND (b, c) = (?, ?)", nil},
		{"SELECT * FROM t WHERE a = 'a' AND b = ? AND c = ?", nil},
		{"SELECT * FROM t WHERE a = 'a' AND b > ?", nil},
		{"SELECT * FROM t WHERE a = 'a' AND b < ?", nil},
		{"SELECT * FROM t WHERE a = ?", func(n int) int { return n }},
		{"SELECT * FROM t WHERE a IN ('x', ?)", func(n int) int { return n }},
		{"SELECT * FROM t WHERE c = ? ALLOW FILTERING", nil},
		{"SELECT * FROM t WHERE token(a) > token(?)", nil},
		{"DELETE FROM t WHERE a = 'a' AND b = ?", nil},
		{"DELETE FROM t WHERE a = 'a' AND b = ? AND c = ?", func(n int) int { return sum(n, n) }},
		{"DELETE FROM t WHERE a = 'a' AND b IN (?, ?) AND c = 'x'", func(n int) int { return sum(n, 1) }},
		{"DELETE FROM t WHERE a = 'a' AND b > ?", nil},
		{"DELETE FROM t WHERE a = ?", func(n int) int { return n }},
	} {
		for _, n := range []int{30000, 32764, 32765, 32767, 32768, 40000, 65534, 65535, 65536, 70000} {
			params := &Params{}
			for range strings.Count(c.text, "?") {
				params.Values = append(params.Values, wire.BytesValue(bytes.Repeat([]byte("x"), n)))
			}
			want := "<nil>"
			if c.length != nil && c.length(n) > 65535 {
				want = fmt.Sprintf("Key length of %d is longer than maximum of 65535", c.length(n))
			}
			_, err := p.Query(at(ring.One), s, c.text, params)
			if got := fmt.Sprint(err); got != want {
				t.Errorf("%s with %d bytes: %s, want %s", c.text, n, got, want)
			}
		}
	}
}
