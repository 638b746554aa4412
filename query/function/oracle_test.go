package function

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"cqld/types"
)

// TestNumbersAreCassandras compares casts between numbers and the mathematical functions with the results that were
// recorded from Cassandra's own classes.
func TestNumbersAreCassandras(t *testing.T) {
	file, err := os.ReadFile("testdata/number.txt")
	if err != nil {
		t.Fatal(err)
	}
	library := New()
	for line := range strings.Lines(string(file)) {
		if line[0] == '#' {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		of, _ := types.NativeByName(f[1])
		arg, err := hex.DecodeString(f[2])
		if err != nil {
			t.Fatal(err)
		}
		function, err := library.Resolve(Call{Name: f[0], Args: typedArgs(of)})
		if err != nil {
			t.Fatal(err)
		}
		if got := answer(function, arg); got != f[3] {
			t.Errorf("%s of the %s %s (0x%s) is %s, not %s", f[0], f[1], of.AppendText(nil, arg), f[2], got, f[3])
		}
	}
}

// answer returns the result of a function as the file writes it.
func answer(f *Function, arg []byte) string {
	v, err := f.Eval(testEnv{}, [][]byte{arg})
	switch {
	case err != nil:
		return "error " + err.Error()
	case v == nil:
		return "null"
	case f.Returns.Kind() == types.Text:
		return string(v)
	}
	return hex.EncodeToString(v)
}
