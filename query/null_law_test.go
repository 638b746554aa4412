package query

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/ring"
)

// TestNullRelationsChangeNothing draws DELETE and UPDATE statements in which one value in WHERE is null or unset, as a
// literal or as a bound value. Each must be refused, and must not change the table. (Cassandra answers DELETE … WHERE c
// > null with a time-out.)
func TestNullRelationsChangeNothing(t *testing.T) {
	operators := map[string]int{}
	for seed := range uint64(extensionSeeds) {
		c := newExtensionCase(t, seed)
		before := c.query("SELECT * FROM t")
		for range 40 {
			where, operator, holes := c.incomplete()
			text := "DELETE FROM t WHERE " + where
			if exact := holes > 0 && !strings.ContainsAny(where, "<>"); exact && c.r.IntN(2) == 0 {
				text = "UPDATE t SET v = 9 WHERE " + where
			}
			params := &Params{}
			if value := c.r.IntN(3); value == 0 {
				text = strings.ReplaceAll(text, "?", "null")
			} else {
				kind := []wire.ValueKind{wire.ValueNull, wire.ValueUnset}[value-1]
				params.Values = slices.Repeat([]wire.Value{{Kind: kind}}, holes)
			}
			_, err := c.p.Query(at(ring.One), c.s, text, params)
			if refused := (*invalid.Error)(nil); !errors.As(err, &refused) {
				t.Fatalf("seed %d: %s with %v: %v", seed, text, params.Values, err)
			}
			operators[operator]++
		}
		if after := c.query("SELECT * FROM t"); !slices.Equal(before, after) {
			t.Fatalf("seed %d: the table has changed:\n%q\n%q", seed, before, after)
		}
	}
	for _, operator := range []string{"=", "<", "<=", ">", ">=", "IN", "(c, d) >", "(c, d) IN"} {
		if operators[operator] == 0 {
			t.Errorf("no statement has a null with %s", operator)
		}
	}
}

// incomplete returns a WHERE in which one or two values are markers, and the operator before them.
func (c *extensionCase) incomplete() (where, operator string, holes int) {
	n := func() int { return c.r.IntN(4) }
	comparison := []string{"<", "<=", ">", ">="}[c.r.IntN(4)]
	switch c.r.IntN(8) {
	case 0:
		return "p = ?", "=", 1
	case 1:
		return fmt.Sprintf("p = %d AND c = ? AND d = %d", n(), n()), "=", 1
	case 2:
		return fmt.Sprintf("p = %d AND c %s ?", n(), comparison), comparison, 1
	case 3:
		return fmt.Sprintf("p = %d AND c = %d AND d %s ?", n(), n(), comparison), comparison, 1
	case 4:
		return fmt.Sprintf("p = %d AND c > %d AND c < ?", n(), n()), "<", 1
	case 5:
		return fmt.Sprintf("p = %d AND c IN (%d, ?) AND d = %d", n(), n(), n()), "IN", 1
	case 6:
		return fmt.Sprintf("p = %d AND (c, d) > (%d, ?)", n(), n()), "(c, d) >", 1
	}
	return fmt.Sprintf("p = %d AND (c, d) IN ((%d, %d), (?, ?))", n(), n(), n()), "(c, d) IN", 2
}
