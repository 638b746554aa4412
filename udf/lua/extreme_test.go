package lua

import (
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"

	"cqld/udf/value"
)

// integerCalls are the operations of the library and of the language that take integers of a script: positions, counts
// and bounds are a, b and c.
func integerCalls() []string {
	return []string{"return unpack({}, a, b)", "return table.unpack({1, 2}, a, b)", "return table.concat({}, '', a, b)",
		"return table.concat({'x', 'y', [a] = 'z', [b] = 'z'}, ',', a, b)", "table.insert({1, 2}, a, b)",
		"return table.remove({1, 2}, a)", "return select(a, b, c)", "return string.rep('xy', a, b)",
		"return string.sub('abc', a, b)", "return string.byte('abc', a, b)", "return string.char(a, b)",
		"return string.find('abc', 'b', a)", "return string.find('abc', '.-', a)", "return string.match('abc', '.', a)",
		"return string.gsub('abc', '', 'x', a)", "return string.format('%d%x%c%99d', a, b, c, a)",
		"for i = a, b, c do local x = i end", "for i = a, b do local x = i end", "local t = {} t[a] = 1 t[b] = 2 " +
			"for k in pairs(t) do t[k] = nil end", "local f, t = ipairs({1}) return f(t, a)", "return next({1, 2}, a)",
		"return math.abs(a) + math.fmod(b, c)", "return math.idiv(a, b) + a % b", "return math.max(a, b, c)",
		"return -a * b - c", "return integer(a) * integer(b)", "return math.tointeger(a ^ 2)"}
}

// extremes are the integers at which arithmetic with bounds may overflow.
func extremes() []value.Value {
	return []value.Value{int64(math.MinInt64), int64(math.MinInt64 + 1), int64(-2), int64(0), int64(1), int64(3),
		int64(math.MaxInt64 - 1), int64(math.MaxInt64)}
}

// TestIntegersOfAnySizeEnd calls everything that takes integers with all triples of extremes: each call ends with a
// value or an error within its bounds. An operation that overflowed would not end.
func TestIntegersOfAnySizeEnd(t *testing.T) {
	for _, body := range integerCalls() {
		p, err := Compile(body, []string{"a", "b", "c"})
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		for _, a := range extremes() {
			for _, b := range extremes() {
				for _, c := range extremes() {
					m := value.NewMeter(value.Limits{Steps: 2000, Bytes: 64 << 10}, nil)
					_, err := p.Run(m, []value.Value{a, b, c})
					var exceeded *value.Exceeded
					var fault *value.Fault
					if err != nil && !errors.As(err, &exceeded) && !errors.As(err, &fault) {
						t.Errorf("%s with %v, %v, %v: %v", body, a, b, c, err)
					}
				}
			}
		}
	}
}

// TestCopiesAreChargedBefore calls functions that copy their argument with fewer bytes than it has: nothing is copied.
func TestCopiesAreChargedBefore(t *testing.T) {
	of := value.NewMeter(value.Limits{Steps: 1 << 30, Bytes: 1 << 30}, nil)
	list := value.NewTable(of)
	for i := range 100_000 {
		list.Append(of, int64(i))
	}
	for body, arg := range map[string]value.Value{"table.sort(a)": list,
		"return string.format('%q', a)": strings.Repeat("x", 1_600_000)} {
		p, err := Compile(body, []string{"a"})
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = p.Run(value.NewMeter(value.Limits{Steps: 1_000_000, Bytes: 1 << 20}, nil), []value.Value{arg})
		runtime.ReadMemStats(&after)
		var exceeded *value.Exceeded
		if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 256<<10 || !errors.As(err, &exceeded) {
			t.Errorf("%s: %d bytes, %v", body, bytes, err)
		}
	}
}

// TestRangesAtTheLargestInteger checks ranges whose last position has no successor, and ranges that are empty.
func TestRangesAtTheLargestInteger(t *testing.T) {
	for body, want := range map[string]string{
		"return select('#', unpack({}, math.mininteger, math.mininteger + 1))":               "2",
		"return select('#', unpack({}, math.maxinteger - 1, math.maxinteger))":               "2",
		"return select('#', unpack({}, math.maxinteger, math.mininteger))":                   "0",
		"return select('#', unpack({}, 1, math.mininteger))":                                 "0",
		"return (pcall(unpack, {}, math.mininteger, math.maxinteger))":                       "false",
		"return (pcall(unpack, {}, 0, math.maxinteger))":                                     "false",
		"local n = math.maxinteger return table.concat({[n] = 'x'}, ',', n, n)":              `"x"`,
		"local n = math.maxinteger return table.concat({'x'}, ',', n, 1)":                    `""`,
		"local c = 0 for i = math.maxinteger - 1, math.maxinteger do c = c + 1 end return c": "2",
	} {
		if v, err := run1(t, body); err != nil || value.Describe(v) != want {
			t.Errorf("%s: %v, %v", body, value.Describe(v), err)
		}
	}
}
