package types

import (
	"errors"
	"fmt"
	"testing"
)

func TestLiteralsAreCassandras(t *testing.T) {
	kinds := map[string]LiteralKind{}
	for k := StringLiteral; k <= DurationLiteral; k++ {
		kinds[k.String()] = k
	}
	recorded(t, "testdata/literal.txt", func(f []string) {
		typ := mustClass(t, f[0])
		b, err := typ.FromLiteral(kinds[f[1]], f[2])
		got := fmt.Sprintf("%x", b)
		if got == "" {
			got = "-"
		}
		var constant *ConstantError
		switch {
		case errors.As(err, &constant):
			got = constant.Message("x")
		case err != nil:
			got = err.Error()
		case typ.Validate(b) != nil:
			t.Errorf("%s: %s makes the invalid %x", typ, f[2], b)
		}
		if got != f[3] {
			t.Errorf("%s %s %q: %s, want %s", typ, f[1], f[2], got, f[3])
		}
	})
}
