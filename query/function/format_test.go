package function

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"cqld/types"
)

// callNative resolves and evaluates a call with arguments of the given types, and returns the text of the result.
func callNative(t *testing.T, l *Library, name string, ts []*types.Type, texts ...string) (string, error) {
	t.Helper()
	f, err := l.Resolve(Call{Name: name, Args: typedArgs(ts...)})
	if err != nil || f == nil {
		return "", err
	}
	values := make([][]byte, len(texts))
	for i, text := range texts {
		if text == "null" {
			continue
		}
		if values[i], err = ts[i].FromText(text); err != nil {
			t.Fatal(err)
		}
	}
	v, err := f.Eval(testEnv{}, values)
	if v == nil || err != nil {
		return "null", err
	}
	return string(f.Returns.AppendText(nil, v)), nil
}

// TestFormatFunctions checks the examples of Cassandra 6's documentation and the errors of its tests.
func TestFormatFunctions(t *testing.T) {
	l := New()
	kinds := func(k types.Kind, more int) []*types.Type {
		all := args(k)
		for range more {
			all = append(all, native(types.Ascii))
		}
		return all
	}
	for _, c := range []struct {
		name, args string
		kind       types.Kind
		want       string
	}{
		{"format_bytes", "1073741825", types.Bigint, "1 GiB"},
		{"format_bytes", "1073741824", types.Int, "1024 MiB"},
		{"format_bytes", "0", types.Tinyint, "0 B"},
		{"format_bytes", "1024", types.Smallint, "1024 B"},
		{"format_bytes", "5242880 MiB", types.Int, "5 MiB"},
		{"format_bytes", "5 GiB B", types.Int, "5368709120 B"},
		{"format_bytes", "1500 mib gib", types.Varint, "1 GiB"},
		{"format_bytes", "9223372036854775807 GiB B", types.Text, "9223372036854775807 B"},
		{"format_bytes", "null", types.Int, "null"},
		{"format_bytes", "1 null", types.Int, "error: none of the arguments may be null"},
		{"format_bytes", "-1", types.Int, "error: value must be non-negative"},
		{"format_bytes", "abc", types.Text, "error: unable to convert string 'abc' to a value of type long"},
		{"format_bytes", "1 abc", types.Int, "error: Unsupported data storage unit: abc. Supported units are: B, KiB, MiB, GiB"},
		{"format_bytes", "1 abc B", types.Int, "error: Unsupported data storage unit: abc. Supported units are: B, KiB, MiB, GiB"},
		{"format_bytes", "1 B B B", types.Int, "error: Invalid number of arguments for function " +
			"system.format_bytes([int|tinyint|smallint|bigint|varint|ascii|text], [ascii], [ascii])"},
		{"format_time", "60001", types.Int, "1 m"},
		{"format_time", "999", types.Int, "999 ms"},
		{"format_time", "86400000", types.Ascii, "1 d"},
		{"format_time", "7200000 h", types.Int, "2 h"},
		{"format_time", "3 m s", types.Int, "180 s"},
		{"format_time", "1 d NS", types.Int, "86400000000000 NS"},
		{"format_time", "9223372036854775807 d ns", types.Bigint, "9223372036854775807 ns"},
		{"format_time", "1 abc", types.Int, "error: Unsupported time unit: abc. Supported units are: ns, us, ms, s, m, h, d"},
		{"format_time", "1", types.Boolean, "error: Function system.format_time requires an argument of type " +
			"[int|tinyint|smallint|bigint|varint|ascii|text], but found argument boolean of type boolean"},
		{"length", "héllo𝄞", types.Text, "7"}, // UTF-16 code units
		{"length", "", types.Ascii, "0"},
		{"length", "null", types.Text, "null"},
		{"octet_length", "héllo", types.Text, "6"},
		{"octet_length", "5", types.Bigint, "8"},
		{"octet_length", "null", types.UUID, "null"},
	} {
		texts := strings.Split(c.args, " ")
		got, err := callNative(t, l, c.name, kinds(c.kind, len(texts)-1), texts...)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != c.want {
			t.Errorf("%s(%s)\ngot  %s\nwant %s", c.name, c.args, got, c.want)
		}
	}
}

// TestFormatLosesLessThanOneUnit converts quantities to every unit and back.
func TestFormatLosesLessThanOneUnit(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, all := range [][]unit{byteUnits(), timeUnits()} {
		for range 1000 {
			n := rng.Uint64N(1 << 40)
			u := all[rng.IntN(len(all))]
			down := convertUnit(n, all[0].size, u.size)
			if back := convertUnit(down, u.size, all[0].size); back > n || n-back >= u.size {
				t.Fatalf("%d is %d %s, which is %d", n, down, u.name, back)
			}
		}
	}
	if got := convertUnit(1<<62, 1<<30, 1); got != 1<<63-1 {
		t.Fatalf("an overflow gives %s", strconv.FormatUint(got, 10))
	}
}
