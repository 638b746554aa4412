package udf

import (
	"errors"
	"flag"
	"fmt"
	"math/big"
	"os"
	"regexp"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/apd/v3"
	"golang.org/x/sys/unix"

	"cqld/internal/tier"
	"cqld/types"
	"cqld/udf/java"
	"cqld/udf/lua"
	"cqld/udf/value"
)

// The bounds of the work of a call that has counted some operations and bytes. An operation of the calibration, an
// iteration of an empty loop in
// Lua, is among the cheapest.
const (
	costFactor      = 24   // operations of the calibration for each counted one
	costCall        = 100  // operations for the call itself
	costFixed       = 5000 // operations that need not be counted
	costBytesFactor = 4
	costBytesStep   = 256 // bytes that an operation allocates besides those that are counted
	costBytesFixed  = 256 << 10
)

func costLimits() value.Limits {
	return value.Limits{Steps: 3_000_000, Bytes: 64 << 20, Output: 16 << 20}
}

// used is what some calls used, as they counted it and as it was measured.
type used struct {
	steps, bytes       int64
	nanos, allocations int64 // of the thread's CPU, and bytes
}

// measure calls f until it has taken some CPU time, and returns the least use of several attempts.
func measure(attempts int, f func(m *value.Meter) error) (least used) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for attempt := range attempts {
		var u used
		before := allocated()
		began := threadNanos()
		for calls := 0; calls < 100 && u.nanos < 300_000; calls++ {
			m := value.NewMeter(costLimits(), nil)
			err := f(m)
			steps, bytes := m.Used()
			u.steps, u.bytes = u.steps+steps+costCall, u.bytes+bytes
			u.nanos = threadNanos() - began
			var exceeded *value.Exceeded
			if errors.As(err, &exceeded) {
				break
			}
		}
		u.allocations = allocated() - before
		if attempt == 0 || u.nanos*(least.steps+1) < least.nanos*(u.steps+1) {
			least = u
		}
	}
	return least
}

// allocated returns the bytes that the process has allocated, except for what is in the caches of processors.
func allocated() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// threadNanos returns the CPU time of the thread. Unlike getrusage(2), this clock includes what the thread has used
// since the last tick of the system: a tick is 4 ms, more than a thousand short calls take.
func threadNanos() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(err)
	}
	return now.Nano()
}

// unit returns the CPU time of an operation of the calibration, in nanoseconds.
func unit(t testing.TB) float64 {
	t.Helper()
	p, err := lua.Compile("for i = 1, 400000 do end return 1", nil)
	if err != nil {
		t.Fatal(err)
	}
	u := measure(5, func(m *value.Meter) error { _, err := p.Run(m, nil); return err })
	return float64(u.nanos) / float64(u.steps-costCall)
}

// checkCost compares what calls of f use with what they count. perStep is the CPU time of an operation of the
// calibration.
func checkCost(t testing.TB, perStep float64, name string, f func(m *value.Meter) error) {
	t.Helper()
	for attempts := 1; ; attempts *= 3 {
		u := measure(attempts, f)
		if attempts > 8 {
			perStep = unit(t) // under the same load
		}
		spent := float64(u.nanos) / perStep
		if spent <= costFactor*float64(u.steps)+costFixed &&
			u.allocations <= costBytesFactor*u.bytes+costBytesStep*u.steps+costBytesFixed {
			return
		}
		if attempts > 8 {
			t.Errorf("%s: %d operations and %d bytes are counted; the CPU time is that of %.0f operations,"+
				" %d bytes were allocated",
				name, u.steps, u.bytes, spent, u.allocations)
			return
		}
	}
}

// argument is an argument of calls, of a size.
type argument struct {
	name string
	cql  string // its type, for Java
	make func(n int) value.Value
}

func digits(n int) *big.Int {
	d, _ := new(big.Int).SetString(strings.Repeat("7", max(1, min(n, 3000))), 10)
	return new(big.Int).Lsh(d, uint(8*max(n-3000, 0))) // a conversion of all digits would take too long
}

func newTable(n int, add func(m *value.Meter, t *value.Table, i int)) value.Value {
	m := value.NewMeter(value.Limits{Steps: 1 << 50, Bytes: 1 << 50}, nil)
	t := value.NewTable(m)
	for i := range n {
		add(m, t, i)
	}
	return t
}

// values are arguments that were made before. Tables are made again, because calls change them.
type values map[string]value.Value

func (v values) of(a argument, n int) value.Value {
	key := fmt.Sprint(a.name, n)
	if _, ok := v[key]; !ok {
		v[key] = a.make(n)
		if _, ok := v[key].(*value.Table); ok {
			defer delete(v, key)
		}
	}
	return v[key]
}

func decimalOf(exponent int32) func(n int) value.Value {
	return func(n int) value.Value {
		return apd.NewWithBigInt(new(apd.BigInt).SetMathBigInt(digits(n)), exponent)
	}
}

// arguments returns arguments of all types.
func arguments() []argument {
	return []argument{
		{"number", "int", func(n int) value.Value { return int64(n) }},
		{"text", "text", func(n int) value.Value { return strings.Repeat("a", n) }},
		{"other text", "text", func(n int) value.Value { return strings.Repeat("a", max(n-1, 0)) + "b" }},
		{"wide text", "text", func(n int) value.Value { return strings.Repeat("ß𝄞", n/6) }},
		{"pattern", "text", func(n int) value.Value { return "(.-)[" + strings.Repeat("x", n) + "]" }},
		{"digits", "text", func(n int) value.Value { return strings.Repeat("9", n) }},
		{"varint", "varint", func(n int) value.Value { return digits(n) }},
		{"odd varint", "varint", func(n int) value.Value { return new(big.Int).Add(digits(n), big.NewInt(1)) }},
		{"decimal", "decimal", decimalOf(-3)},
		{"other decimal", "decimal", decimalOf(-4)},
		{"small decimal", "decimal", decimalOf(-1 << 31)},
		{"large decimal", "decimal", decimalOf(1<<31 - 1)},
		{"round decimal", "decimal", func(n int) value.Value {
			ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(min(n, 100_000))), nil)
			return apd.NewWithBigInt(new(apd.BigInt).SetMathBigInt(ten), -7)
		}},
		{"float", "double", func(n int) value.Value { return float64(n) + 0.5 }},
		{"list", "list<text>", func(n int) value.Value {
			return newTable(n/8, func(m *value.Meter, t *value.Table, i int) { t.Append(m, fmt.Sprint("v", i)) })
		}},
		{"numbers", "list<varint>", func(n int) value.Value {
			return newTable(n/100, func(m *value.Meter, t *value.Table, i int) {
				t.Append(m, new(big.Int).Lsh(big.NewInt(int64(i+1)), 800))
			})
		}},
		{"map", "map<text, text>", func(n int) value.Value {
			return newTable(n/8, func(m *value.Meter, t *value.Table, i int) { t.Set(m, fmt.Sprint("k", i), "v") })
		}},
		{"set", "set<decimal>", func(n int) value.Value {
			return newTable(n/100, func(m *value.Meter, t *value.Table, i int) {
				t.Set(m, apd.New(int64(i)*37,
					int32(i%50-60)), true)
			})
		}},
		{"emptied map", "map<text, text>", func(n int) value.Value {
			return newTable(n/4, func(m *value.Meter, t *value.Table, i int) {
				t.Set(m, fmt.Sprint("k", i/2), map[bool]value.Value{true: "v"}[i%2 == 0])
			})
		}},
		{"nil", "text", func(int) value.Value { return nil }},
	}
}

// strings of the source files of a package that match a pattern.
func named(t testing.TB, pattern string, files ...string) (names []string) {
	t.Helper()
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(b), -1) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// luaCalls returns calls of all functions of the library and all operators, with the parameters a, b and c.
func luaCalls(t testing.TB) (bodies []string) {
	for prefix, file := range map[string]string{"": "lua/library.go", "string.": "lua/libstring.go",
		"math.":  "lua/libmath.go",
		"table.": "lua/libtable.go"} {
		for _, name := range named(t, `(?m)^\t\t"(\w+)": `, file) {
			for _, args := range []string{"a", "a, b", "a, b, c"} {
				bodies = append(bodies, "return "+prefix+name+"("+args+")")
			}
		}
	}
	bodies = append(bodies, "for k, v in pairs(a) do end", "for k, v in ipairs(a) do end",
		"for x in string.gmatch(a, b) do end", "return next(a, b)",
		"return string.format('%s', a)", "return string.format('%q', a)",
		"return string.format('%d', a)", "return string.format('%f', a)",
		"return #a", "return -a", "return not a", "return a[b]", "a[b] = c", "return {[a] = b}",
		"return {[a] = b, [b] = c}", "return (a .. b) .. c",
		"for i = a, b, c do end", "for i = 1, a do break end")
	for _, op := range []string{"+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", "<=", ">", ">=", "and", "or"} {
		bodies = append(bodies, "return a "+op+" b")
	}
	return bodies
}

var costSize = flag.Int("cost-size", 5000, "the larger size of the arguments with which functions are called")

// costSizes returns the sizes of arguments.
func costSizes() []int { return []int{10, *costSize} }

// TestLuaCallsCostWhatTheyCount calls all functions and operators with arguments of all types and of growing sizes.
func TestLuaCallsCostWhatTheyCount(t *testing.T) {
	tier.Long(t)
	bodies, all := luaCalls(t), arguments()
	if len(bodies) < 150 {
		t.Fatalf("%d calls", len(bodies))
	}
	ran, made, perStep := 0, values{}, unit(t)
	for _, body := range bodies {
		p, err := lua.Compile(body, []string{"a", "b", "c"})
		if err != nil {
			continue // names of the source that are no functions
		}
		for _, n := range costSizes() {
			for i, a := range all {
				for _, b := range others(body, all, i, n) {
					ran++
					c := all[(i+ran)%len(all)]
					args := []value.Value{made.of(a, n), made.of(b, n), made.of(c, min(n, 1000))}
					checkCost(t, perStep, fmt.Sprintf("%s with %s, %s, %s of %d", body, a.name, b.name, c.name, n),
						func(m *value.Meter) error {
							_, err := p.Run(m, args)
							return err
						})
				}
			}
		}
	}
	t.Logf("%d calls", ran)
}

// others returns the second arguments for a call, all of them for small sizes.
func others(body string, all []argument, i, n int) []argument {
	if !regexp.MustCompile(`\bb\b`).MatchString(body) {
		return all[:1]
	}
	if n < 1000 {
		return []argument{all[i]}
	}
	return []argument{all[0], all[i], all[(i+1)%len(all)]}
}

// TestJavaCallsCostWhatTheyCount is the same for Java, with each method that compiles.
func TestJavaCallsCostWhatTheyCount(t *testing.T) {
	tier.Long(t)
	all := arguments()
	methods := named(t, `"(\w+)"`, "java/methods.go", "java/static.go", "java/postfix.go", "java/tuple.go")
	var forms []string
	for _, name := range methods {
		for _, args := range []string{"", "b", "b, c"} {
			forms = append(forms, "a."+name+"("+args+")")
		}
		for _, class := range []string{"Math", "String", "Integer", "Long", "Double", "Boolean", "java.math.BigInteger",
			"java.math.BigDecimal"} {
			forms = append(forms, class+"."+name+"(a)", class+"."+name+"(a, b)")
		}
	}
	forms = append(forms, "new java.math.BigInteger(a)", "new java.math.BigDecimal(a)", `"" + a`, `a + "x"`, "a + b",
		"a * b", "a < b", "a == b", "-a")
	ran, made, perStep := 0, values{}, unit(t)
	for _, form := range forms {
		for i, a := range all {
			for _, b := range []argument{all[0], all[1], a, all[(i+1)%len(all)]} {
				p := compiledJava(t, form, a, b, all[0])
				for _, n := range costSizes() {
					if p == nil {
						break
					}
					ran++
					args := []value.Value{made.of(a, n), made.of(b, n), int64(1)}
					checkCost(t, perStep, fmt.Sprintf("%s with %s, %s of %d", form, a.name, b.name, n),
						func(m *value.Meter) error {
							_, err := p.Run(m, args)
							return err
						})
				}
			}
		}
	}
	if ran < 500 {
		t.Errorf("%d calls ran", ran)
	}
	t.Logf("%d calls", ran)
}

// compiledJava returns a function that evaluates an expression with arguments of types, or nil if there is no such
// method.
func compiledJava(t testing.TB, form string, args ...argument) *java.Program {
	f := java.Function{Returns: types.Native(types.Int), CalledOnNull: true}
	for i, a := range args {
		typ, err := types.ParseCQL(a.cql, nil)
		if err != nil {
			t.Fatal(err)
		}
		f.ArgNames, f.ArgTypes = append(f.ArgNames, string(rune('a'+i))), append(f.ArgTypes, typ)
	}
	for _, body := range []string{form + "; return 1;", `String s = "" + (` + form + "); return 1;",
		"if (" + form + ") return 1; return 2;"} {
		f.Body = body
		if p, err := java.Compile(f); err == nil {
			return p
		}
	}
	return nil
}

// TestConversionsOfValuesCostWhatTheyCount converts values of CQL types to values of a function and back.
func TestConversionsOfValuesCostWhatTheyCount(t *testing.T) {
	perStep := unit(t)
	for _, a := range arguments() {
		typ, err := types.ParseCQL(a.cql, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range costSizes() {
			if a.name == "number" {
				n = min(n, 1<<30)
			}
			v := a.make(n)
			var wire []byte
			free := value.NewMeter(value.Limits{Steps: 1 << 50, Bytes: 1 << 50}, nil)
			if func() (err error) { defer value.Catch(&err); wire = value.ToCQL(free, typ, v); return nil }() != nil {
				continue
			}
			checkCost(t, perStep, fmt.Sprintf("to %s of %d from %s", a.cql, n, a.name),
				func(m *value.Meter) (err error) {
					defer value.Catch(&err)
					value.ToCQL(m, typ, v)
					return nil
				})
			checkCost(t, perStep, fmt.Sprintf("from %s of %d, a %s", a.cql, n, a.name),
				func(m *value.Meter) (err error) {
					defer value.Catch(&err)
					value.FromCQL(m, typ, wire)
					return nil
				})
		}
	}
}

// FuzzCost calls a function of Lua with arguments of arbitrary types and sizes.
func FuzzCost(f *testing.F) {
	bodies, all, perStep := luaCalls(f), arguments(), unit(f)
	for i := range 20 {
		f.Add(uint16(i*7), uint8(i), uint8(i+1), uint8(i+2), uint32(10*i), uint32(1000*i))
	}
	f.Fuzz(func(t *testing.T, body uint16, a, b, c uint8, n, k uint32) {
		p, err := lua.Compile(bodies[int(body)%len(bodies)], []string{"a", "b", "c"})
		if err != nil {
			return
		}
		const most = 1 << 20
		first, second, third := all[int(a)%len(all)], all[int(b)%len(all)], all[int(c)%len(all)]
		args := []value.Value{first.make(int(n % most)), second.make(int(k % most)), third.make(int((n ^ k) % most))}
		checkCost(t, perStep, fmt.Sprintf("%s with %s of %d, %s of %d, %s of %d", bodies[int(body)%len(bodies)],
			first.name, n%most, second.name, k%most, third.name,
			(n^k)%most), func(m *value.Meter) error { _, err := p.Run(m, args); return err })
	})
}
