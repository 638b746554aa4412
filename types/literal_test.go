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

func TestConstantsPreferTheTypeCassandraDoes(t *testing.T) {
	for _, tc := range []struct {
		kind LiteralKind
		text string
		want Kind
	}{
		{StringLiteral, "abc", Ascii}, {StringLiteral, "é", Text}, {StringLiteral, "", Ascii},
		{IntegerLiteral, "1", Int}, {IntegerLiteral, "2147483648", Bigint}, {IntegerLiteral, "-2147483648", Int},
		{IntegerLiteral, "9223372036854775808", Varint},
		{FloatLiteral, "1.5", Double}, {FloatLiteral, "0.1", Double}, {FloatLiteral, "0.1234567890123456789", Decimal},
		{FloatLiteral, "NaN", Double}, {FloatLiteral, "-Infinity", Double}, {FloatLiteral, "1e300", Double},
		{FloatLiteral, "123456789012345678901234567890.5", Decimal}, {FloatLiteral, "1e-400", Decimal},
		{FloatLiteral, "1.50", Double}, {FloatLiteral, "1e400", Decimal},
		{UUIDLiteral, "550e8400-e29b-41d4-a716-446655440000", UUID},
		{UUIDLiteral, "550e8400-e29b-11d4-a716-446655440000", Timeuuid},
		{BooleanLiteral, "true", Boolean}, {HexLiteral, "0x01", Blob}, {DurationLiteral, "1d", Duration},
	} {
		if got := tc.kind.Preferred(tc.text); got.Kind() != tc.want {
			t.Errorf("%s %q is %s, want %s", tc.kind, tc.text, got, Native(tc.want))
		}
	}
}

func TestNumbersOfAnySizeAreBounded(t *testing.T) {
	digits := make([]byte, literalDigitsMax+1)
	for i := range digits {
		digits[i] = '9'
	}
	for _, k := range []Kind{Varint, Decimal} {
		if _, err := Native(k).FromText(string(digits)); err == nil {
			t.Errorf("%s of %d digits", Native(k), len(digits))
		}
		if _, err := Native(k).FromText(string(digits[:1000])); err != nil {
			t.Errorf("%s of 1000 digits: %v", Native(k), err)
		}
		for _, sign := range []string{"", "-"} {
			if _, err := Native(k).FromText(sign + string(digits[:literalDigitsMax])); err != nil {
				t.Errorf("%s of %d digits: %.40v", Native(k), literalDigitsMax, err)
			}
		}
	}
}
