package types

import (
	"strconv"
	"strings"
	"testing"
)

func TestTextAndJSONAreCassandras(t *testing.T) {
	recorded(t, "testdata/format.txt", func(f []string) {
		typ, b := mustClass(t, f[1]), unhex(t, f[2])
		want, err := strconv.Unquote(`"` + strings.ReplaceAll(f[3], `"`, `\"`) + `"`)
		if err != nil {
			t.Fatalf("%q: %v", f[3], err)
		}
		var got string
		if f[0] == "cql" {
			got = string(typ.AppendLiteral(nil, b))
		} else {
			got = string(typ.AppendJSON(nil, b))
		}
		if got != want {
			t.Errorf("%s %s %s: %s, want %s", f[0], typ, f[2], got, want)
		}
	})
}
