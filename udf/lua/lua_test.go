package lua

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"cqld/udf/value"
)

func limits() value.Limits { return value.Limits{Steps: 1_000_000, Bytes: 8 << 20} }

// run calls a body with the arguments a, b, ….
func run1(t testing.TB, body string, args ...value.Value) (value.Value, error) {
	t.Helper()
	p, err := Compile(body, []string{"a", "b", "c"}[:len(args)])
	if err != nil {
		return nil, err
	}
	return p.Run(value.NewMeter(limits(), nil), args)
}

// TestBinaryCodeIsRefused compiles the beginning of compiled code, which no text file contains.
func TestBinaryCodeIsRefused(t *testing.T) {
	if _, err := Compile("\x1bLua", nil); err == nil || err.Error() != "binary code is not allowed" {
		t.Error(err)
	}
}

// Programs that would not end, or would take all memory, end with *value.Exceeded or a fault after bounded work.
func TestAttacksEnd(t *testing.T) {
	for name, body := range map[string]string{
		"endless loop":       "while true do end",
		"endless repeat":     "repeat until false",
		"endless for":        "for i = 1, math.huge do end",
		"recursion":          "local function f() return f() end return f()",
		"deep recursion":     "local function f(n) return 1 + f(n + 1) end return f(1)",
		"pcall recursion":    "local function f() pcall(f) end f() while true do end",
		"string doubling":    "local s = 'x' while true do s = s .. s end",
		"rep":                "return string.rep('x', 1e15)",
		"rep of rep":         "return ('x'):rep(1000000):rep(1000000)",
		"table of gaps":      "local t = {} local i = 1 while true do t[i] = i i = i + 2 end",
		"table growth":       "local t = {} while true do t[#t + 1] = 'x' end",
		"pcall hides limits": "while true do pcall(function() while true do end end) end",
		"concat": "local t = {} for i = 1, 1000 do t[i] = string.rep('x', 1000) end local s = '' while " +
			"true do s = s .. table.concat(t) end",
		"pattern": "return string.match(string.rep('a', 30), string.rep('a?', 30) .. string.rep('a', 30) " +
			".. 'b')",
		"backtracking": "return string.find(string.rep('a', 5000), '.-.-.-.-b')",
		"gsub growth":  "local s = string.rep('x', 10000) return string.gsub(s, '.+', string.rep('%0', 5000))",
		"format width": "local s = '' while true do s = string.format('%99s%s', s, s) end",
		"big integers": "local x = integer(2) while true do x = x * x end",
		"closures":     "local f = function() end while true do local g = f f = function() return g end end",
		"unpack":       "return unpack({}, 1, 1e8)",
		"sort": "local t = {} for i = 1, 1000 do t[i] = i end table.sort(t, function(a, b) while true " +
			"do end end)",
		"string.byte": "return string.byte(string.rep('x', 7000000), 1, -1)",
	} {
		began := time.Now()
		_, err := run1(t, body)
		var exceeded *value.Exceeded
		var fault *value.Fault
		if !errors.As(err, &exceeded) && !errors.As(err, &fault) {
			t.Errorf("%s: error %v", name, err)
		}
		if spent := time.Since(began); spent > 20*time.Second {
			t.Errorf("%s took %v", name, spent)
		}
	}
}

// The same call uses the same steps and has the same result, even if it fails.
func TestCallsAreDeterministic(t *testing.T) {
	for _, body := range []string{
		"local t = {z = 1, y = 2, x = 3} local s = '' for k in pairs(t) do s = s .. k end return s",
		"return tostring({}) .. tostring(function() end)",
		"local t = {} while true do t[#t + 1] = {} end",
		"while true do end",
	} {
		first, firstErr := run1(t, body)
		for range 5 {
			again, err := run1(t, body)
			if value.Describe(again) != value.Describe(first) || (err == nil) != (firstErr == nil) || err != nil &&
				err.Error() != firstErr.Error() {
				t.Errorf("%q: %v (%v), then %v (%v)", body, first, firstErr, again, err)
			}
		}
	}
}

func TestNestingIsBounded(t *testing.T) {
	for _, body := range []string{
		"return " + strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000),
		"return " + strings.Repeat("- ", 5000) + "1",
		"return 1" + strings.Repeat(" + 1", 5000),
		"return 'a'" + strings.Repeat(" .. 'a'", 5000),
		strings.Repeat("do ", 3000) + strings.Repeat("end ", 3000),
		"return " + strings.Repeat("{", 3000) + strings.Repeat("}", 3000),
		"return " + strings.Repeat("function() return ", 3000) + "1" + strings.Repeat(" end", 3000),
	} {
		if _, err := Compile(body, nil); err == nil {
			t.Errorf("compiled %.30q…", body)
		}
	}
}

// FuzzRun executes arbitrary programs: each ends with a value or an error.
func FuzzRun(f *testing.F) {
	f.Add("return a + 1")
	f.Add("local t = {} for k, v in pairs({1, 2, x = 3}) do t[#t + 1] = v end return #t")
	f.Add("return string.gsub('x', '(.)', '%1%1')")
	f.Add("return string.format('%5.2f', a)")
	for _, body := range integerCalls() {
		f.Add("local a, b, c = math.mininteger, math.maxinteger, -1 " + body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		p, err := Compile(body, []string{"a"})
		if err != nil {
			return
		}
		_, _ = p.Run(value.NewMeter(value.Limits{Steps: 20000, Bytes: 1 << 20}, nil), []value.Value{int64(5)})
	})
}

// TestConversionsAreCharged converts long texts and decimals with extreme exponents: nothing is computed before the
// length is checked, and what is computed is counted.
func TestConversionsAreCharged(t *testing.T) {
	long := strings.Repeat("7", 1_600_000)
	for _, body := range []string{"return integer(a)", "return decimal(a)", "return a + 1", "return tonumber(a)",
		"return math.max(a, 1)",
		"return integer(decimal('1e1000000000'))", "return math.tointeger(decimal('1e-1000000000'))",
		"return string.rep('x', decimal('1e999999999'))"} {
		p, err := Compile(body, []string{"a"})
		if err != nil {
			t.Fatal(err)
		}
		allocated := testing.AllocsPerRun(1, func() {
			_,
				_ = p.Run(value.NewMeter(limits(), nil), []value.Value{long})
		})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = p.Run(value.NewMeter(limits(), nil), []value.Value{long})
		runtime.ReadMemStats(&after)
		if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 256<<10 {
			t.Errorf("%s: %d bytes in %.0f allocations, %v", body, bytes, allocated, err)
		}
	}
	// Operations whose time depends on their arguments end by operations, far below one for each iteration.
	x := strings.Repeat("x", 400_000)
	for _, body := range []string{"local n = 0 for i = 1, 900000 do if a == b then n = n + 1 end end return n",
		"local t = {} for i = 1, 900000 do t[a] = i end return 1",
		"for i = 1, 900000 do if a < b then return 1 end end return 1",
		"for i = 1, 900000 do string.match(a, '^[' .. b .. ']') end return 1"} {
		p, err := Compile(body, []string{"a", "b"})
		if err != nil {
			t.Fatal(err)
		}
		var exceeded *value.Exceeded
		if _, err := p.Run(value.NewMeter(limits(), nil), []value.Value{x, "x" + x[1:]}); !errors.As(err, &exceeded) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// TestNestingIsCountedOutsideOfText checks that brackets and words in strings and comments do not count, and others do.
func TestNestingIsCountedOutsideOfText(t *testing.T) {
	many := strings.Repeat("(do{[", 200)
	for _, body := range []string{"return '" + many + "'",
		"return \"" + many + "\\\"" + many + "\"", "--" + many + "\nreturn 1",
		"--[[" + many + "\n" + many + "]] return 1",
		"return [==[" + many + "]]]=]]==]", "return [[" + many + "]]", strings.Repeat("do end ", 500) + "return 1",
		strings.Repeat("if true then elseif false then else end while false do end repeat until true "+
			"for i = 1, 1 do end ", 100) + "return 1"} {
		if _, err := Compile(body, nil); err != nil {
			t.Errorf("%.60q: %v", body, err)
		}
	}
	for _, open := range []string{"(", "{", "a[", "do ", "if a then ", "repeat ", "while a do ", "[[x]]..("} {
		if err := checkNesting(strings.Repeat("\n"+open, 101)); err == nil ||
			!strings.HasPrefix(err.Error(), "line 102: ") {
			t.Errorf("%q: %v", open, err)
		}
		if err := checkNesting(strings.Repeat(open, 100)); err != nil {
			t.Errorf("%q: %v", open, err)
		}
	}
}
