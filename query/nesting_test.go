package query

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/ring"
)

// nestings returns statements that nest an expression n times; each level must be resolved once, not once for each
// signature of the functions around it.
func nestings() map[string]func(n int) string {
	repeat := func(before, inner, after string) func(int) string {
		return func(n int) string { return strings.Repeat(before, n) + inner + strings.Repeat(after, n) }
	}
	within := func(statement string, f func(int) string) func(int) string {
		return func(n int) string { return fmt.Sprintf(statement, f(n)) }
	}
	return map[string]func(int) string{
		"selected sums":        within("SELECT 1 + %s FROM t", repeat("(", "k", " + 1)")),
		"selected sums, right": within("SELECT 1 + %s FROM t", repeat("(1 + ", "k", ")")),
		"selected calls":       within("SELECT %s FROM t", repeat("abs(", "k", ")")),
		"selected parentheses": within("SELECT 1 + %s FROM t", repeat("(", "k", ")")),
		"selected negations":   within("SELECT %s FROM t", repeat("-(", "k", ")")),
		"selected hints":       within("SELECT %s FROM t", repeat("(int)", "k", "")),
		"selected maps":        within("SELECT (map<int, int>)%s FROM t", repeat("{(int)k: (int)", "k", "}")),
		"selected tuples":      within("SELECT to_json(%s) FROM t", repeat("(k, ", "k", ")")),
		"selected lists":       within("SELECT to_json(%s) FROM t", repeat("[", "k", "]")),
		"sums of markers":      within("SELECT 1 + %s FROM t", repeat("(", "?", " + 1)")),
		"sums in WHERE":        within("SELECT k FROM t WHERE k = 1 + %s", repeat("(", "1", " + 1)")),
		"sums in WHERE, right": within("SELECT k FROM t WHERE k = 1 + %s", repeat("(1 + ", "1", ")")),
		"text in WHERE":        within("SELECT k FROM t WHERE k = 1 + %s", repeat("(1 + ", "'x'", ")")),
		"text in WHERE, left":  within("SELECT k FROM t WHERE k = 1 + %s", repeat("(", "'x'", " + 1)")),
		"markers in WHERE":     within("SELECT k FROM t WHERE k = 1 + %s", repeat("(1 + ", "?", ")")),
		"calls of text":        within("SELECT k FROM t WHERE k = %s", repeat("abs(", "'x'", ")")),
		"calls of a marker":    within("SELECT k FROM t WHERE k = %s", repeat("abs(", "?", ")")),
		"blobs of text": within("SELECT k FROM t WHERE k = %s",
			repeat("blob_as_int(int_as_blob(", "'x'", "))")),
		"text in a set":         within("UPDATE t SET l = [%s] WHERE k = 1", repeat("(1 + ", "'x'", ")")),
		"calls in WHERE":        within("SELECT k FROM t WHERE k = %s", repeat("abs(", "1", ")")),
		"negations in WHERE":    within("SELECT k FROM t WHERE k = %s", repeat("-(", "1", ")")),
		"hints in WHERE":        within("SELECT k FROM t WHERE k = %s", repeat("(int)(", "1", ")")),
		"sums in SET":           within("UPDATE t SET v = 1 + %s WHERE k = 1", repeat("(", "1", " + 1)")),
		"marked sums in SET":    within("UPDATE t SET v = 1 + %s WHERE k = 1", repeat("(", "?", " + 1)")),
		"sums in a list":        within("UPDATE t SET l = [1, %s] WHERE k = 1", repeat("(1 + ", "1", ")")),
		"sums in a condition":   within("UPDATE t SET v = 1 WHERE k = 1 IF v = 1 + %s", repeat("(1 + ", "1", ")")),
		"lists in a frozen one": within("SELECT to_json(%s) FROM t", repeat("[", "1", "]")),
	}
}

// TestNestedExpressionsCompileOnce compiles expressions of 60 levels, which is fast only if the cost does not double
// with each level.
func TestNestedExpressionsCompileOnce(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (k int PRIMARY KEY, v int, l list<int>)")
	for name, text := range nestings() {
		for _, n := range []int{1, 2, 60} {
			params := &Params{}
			if strings.Contains(text(n), "?") {
				params.Values = []wire.Value{wire.BytesValue([]byte{0, 0, 0, 1})}
			}
			_, err := p.Query(at(ring.One), s, text(n), params)
			var refused *invalid.Error
			if err != nil && !errors.As(err, &refused) {
				t.Errorf("%s, %d levels: %v", name, n, err)
			}
		}
	}
}
