package function

import (
	"math"
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
		{"format_bytes", "1500 mib gib", types.Varint, "1.46 GiB"},
		{"format_bytes", "9223372036854775807 GiB B", types.Text, "9223372036854776000 B"},
		{"format_bytes", "null", types.Int, "null"},
		{"format_bytes", "1 null", types.Int, "error: none of the arguments may be null"},
		{"format_bytes", "-1", types.Int, "error: value must be non-negative"},
		{"format_bytes", "abc", types.Text, "error: unable to convert string 'abc' to a value of type long"},
		{"format_bytes", "1 abc", types.Int, "error: Unsupported data storage unit: abc. Supported units are: B, " +
			"KiB, MiB, GiB"},
		{"format_bytes", "1 abc B", types.Int, "error: Unsupported data storage unit: abc. Supported units are: B, " +
			"KiB, MiB, GiB"},
		{"format_bytes", "1 B B B", types.Int, "error: Invalid number of arguments for function " +
			"system.format_bytes([int|tinyint|smallint|bigint|varint|ascii|text], [ascii], [ascii])"},
		{"format_bytes", "128 B KiB", types.Int, "0.13 KiB"},
		{"format_bytes", "5 B KiB", types.Int, "0 KiB"},
		{"format_bytes", "1100", types.Int, "1.07 KiB"},
		{"format_bytes", "1048575", types.Int, "1024 KiB"},
		{"format_time", "1005", types.Int, "1 s"},
		{"format_time", "1025", types.Int, "1.02 s"},
		{"format_time", "12345 ms s", types.Int, "12.35 s"},
		{"format_time", "9223372036854775807", types.Bigint, "106751991167.3 d"},
		{"format_time", "60001", types.Int, "1 m"},
		{"format_time", "999", types.Int, "999 ms"},
		{"format_time", "86400000", types.Ascii, "1 d"},
		{"format_time", "7200000 h", types.Int, "2 h"},
		{"format_time", "3 m s", types.Int, "180 s"},
		{"format_time", "1 d NS", types.Int, "86400000000000 NS"},
		{"format_time", "9223372036854775807 d ns", types.Bigint, "796899343984252600000000000000000 ns"},
		{"format_time", "1 abc", types.Int, "error: Unsupported time unit: abc. Supported units are: ns, us, ms, s, " +
			"m, h, d"},
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

// TestQuantitiesAreRoundedToHundredths compares the text of random quantities with the nearest hundredth.
func TestQuantitiesAreRoundedToHundredths(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		x := float64(rng.Uint64N(1<<40)) / float64(uint64(1)<<rng.IntN(41))
		got, err := strconv.ParseFloat(quantityText(x), 64)
		if err != nil || math.Abs(got-x) > 0.005+x*1e-15 {
			t.Fatalf("%v is shown as %v: %v", x, got, err)
		}
	}
}
