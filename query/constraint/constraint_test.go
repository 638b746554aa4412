package constraint

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"cqld/cql"
	"cqld/schema"
	"cqld/types"
)

// TestStoredConstraintsEqualDefinedOnes defines random constraints, compiles them from the stored text, and compares
// both, and the comparisons of an int with those of Go.
func TestStoredConstraintsEqualDefinedOnes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	operators := map[string]func(a, b int) bool{
		"<": func(a, b int) bool { return a < b }, "<=": func(a, b int) bool { return a <= b },
		">":  func(a, b int) bool { return a > b },
		">=": func(a, b int) bool { return a >= b }, "=": func(a, b int) bool { return a == b },
		"!=": func(a, b int) bool { return a != b },
	}
	for op, holds := range operators {
		for range 50 {
			bound, v := rng.IntN(7)-3, rng.IntN(7)-3
			check := stored(t, types.Native(types.Int), fmt.Sprintf(`"C" %s %d`, op, bound))
			if err := check.Value(types.Native(types.Int).AppendInt64(nil, int64(v))); (err == nil) != holds(v, bound) {
				t.Errorf("%d %s %d: %v", v, op, bound, err)
			}
			check = stored(t, types.Native(types.Text), fmt.Sprintf("LENGTH() %s %d", op, max(bound, 0)))
			text := make([]byte, max(v, 0))
			for i := range text {
				text[i] = 'x'
			}
			if err := check.Value(text); (err == nil) != holds(len(text), max(bound, 0)) {
				t.Errorf("%q has LENGTH() %s %d: %v", text, op, max(bound, 0), err)
			}
		}
	}
}

func TestRegularExpressionsMatchWholeValues(t *testing.T) {
	for _, c := range []struct {
		check, value string
		want         bool
	}{
		{"REGEXP() = 'a|bc'", "bc", true}, {"REGEXP() = 'a|bc'", "abc", false}, {"REGEXP() = 'a.b'", "a\nb", false},
		{"REGEXP() != 'a|bc'", "abc", true}, {"REGEXP() != 'a'", "a", false}, {"REGEXP() = 'it''s'", "it's", true},
		{"NOT NULL AND JSON()", " [1, {}] ", true}, {"JSON()", "[1", false}, {"JSON()", "", false},
		{"OCTET_LENGTH() = 3", "é", false}, {"OCTET_LENGTH() = 2", "é", true}, {"LENGTH() = 1", "é", true},
	} {
		check := stored(t, types.Native(types.Text), c.check)
		if err := check.Value([]byte(c.value)); (err == nil) != c.want {
			t.Errorf("%q, %s: %v", c.value, c.check, err)
		}
		if check.Value(nil) == nil {
			t.Errorf("null satisfies %s", c.check)
		}
	}
	if check := stored(t, types.Native(types.Text), "NOT NULL"); !check.Required() || check.Value(nil) == nil ||
		check.Value([]byte{}) != nil {
		t.Error("NOT NULL")
	}
}

// stored defines constraints and compiles the stored text.
func stored(t *testing.T, typ *types.Type, text string) *Check {
	t.Helper()
	all, err := cql.ParseConstraints(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	col := &schema.Column{Name: "C", Kind: schema.Regular, Type: typ}
	check, err := Define("ks", "t", col, all)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	col.Attributes = &schema.Attributes{Check: check}
	x, err := Compile(col)
	if err != nil || x == nil {
		t.Fatalf("%s is stored as %s: %v", text, check, err)
	}
	return x
}
