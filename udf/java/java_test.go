package java

import (
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"

	"cqld/types"
	"cqld/udf/value"
)

func parsed(t testing.TB, text string) *types.Type {
	t.Helper()
	typ, err := types.ParseCQL(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

// execute compiles a body with the arguments a, b, … of the given types, and calls it.
func execute(t testing.TB, returns, argTypes, body string, called bool, args ...value.Value) (value.Value, error) {
	t.Helper()
	f := Function{Body: body, Returns: parsed(t, returns), CalledOnNull: called}
	for i, text := range strings.Fields(argTypes) {
		f.ArgNames, f.ArgTypes = append(f.ArgNames, string(rune('a'+i))), append(f.ArgTypes, parsed(t, text))
	}
	p, err := Compile(f)
	if err != nil {
		return nil, err
	}
	return p.Run(value.NewMeter(value.Limits{Steps: 100000, Bytes: 1 << 20}, nil), args)
}

// Results are those of a Java virtual machine.
func TestResults(t *testing.T) {
	for _, x := range []struct {
		returns, argTypes, body string
		args                    []value.Value
		want                    string
	}{
		{"int", "int int", "return a + b;", []value.Value{int64(2147483647), int64(1)}, "-2147483648"},
		{"bigint", "int int", "return a * b;", []value.Value{int64(2147483647), int64(2)}, "-2"},
		{"bigint", "int int", "return (long) a * b;", []value.Value{int64(2147483647), int64(2)}, "4294967294"},
		{"int", "int int", "return a / b;", []value.Value{int64(-7), int64(2)}, "-3"},
		{"int", "int int", "return a % b;", []value.Value{int64(-7), int64(2)}, "-1"},
		{"int", "int int", "return Math.max(a, b);", []value.Value{int64(-7), int64(2)}, "2"},
		{"int", "int", "return a >>> 28;", []value.Value{int64(-1)}, "15"},
		{"int", "int", "return a << 33;", []value.Value{int64(1)}, "2"},
		{"double", "int int", "return a / b;", []value.Value{int64(7), int64(2)}, "3.0"},
		{"double", "int int", "return a / (double) b;", []value.Value{int64(7), int64(2)}, "3.5"},
		{"int", "double", "return (int) a;", []value.Value{1e20}, "2147483647"},
		{"tinyint", "int", "return (byte) a;", []value.Value{int64(200)}, "-56"},
		{"int", "int", "return new Integer(a);", []value.Value{int64(7)}, "7"},
		{"int", "text", "return new Integer(a) + 1;", []value.Value{"7"}, "8"},
		{"int", "text", `Integer i = new Integer("12"); return i + a.length();`, []value.Value{"a"}, "13"},
		{"double", "int", "return new Double(a);", []value.Value{int64(7)}, "7.0"},
		{"double", "double", "return new java.lang.Double(a * 2);", []value.Value{1.5}, "3.0"},
		{"double", "text", "return new Double(a);", []value.Value{"1e1"}, "10.0"},
		{"bigint", "bigint", "return Long.valueOf(new Long(a) + 1);", []value.Value{int64(7)}, "8"},
		{"float", "int", "return new Float(1.5);", []value.Value{int64(7)}, "1.5"},
		{"smallint", "int", "return new Short((short) a);", []value.Value{int64(7)}, "7"},
		{"tinyint", "int", "return new Byte((byte) a);", []value.Value{int64(7)}, "7"},
		{"boolean", "boolean", "return new Boolean(!a);", []value.Value{true}, "false"},
		{"boolean", "text", "return new Boolean(a);", []value.Value{"TRUE"}, "true"},
		{"boolean", "text", "return new Boolean(a);", []value.Value{"yes"}, "false"},
		{"text", "text", "return new String(a);", []value.Value{"x"}, `"x"`},
		{"bigint", "int", "return System.currentTimeMillis();", []value.Value{int64(7)}, "0"},
		{"text", "text text", "return a + ':' + b;", []value.Value{"x", "y"}, `"x:y"`},
		{"text", "text int", "return b + ':' + a;", []value.Value{"x", int64(7)}, `"65x"`},
		{"text", "text", `return 'x' + a + '\u00e9' + "\u00e8" + '\'' + '"';`, []value.Value{"-"}, `"x-éè'\""`},
		{"int", "int", "return a + ':';", []value.Value{int64(1)}, "59"},
		{"int", "int", "return -'a';", []value.Value{int64(1)}, "-97"},
		{"int", "int", "int c = 'a'; return c;", []value.Value{int64(1)}, "97"},
		{"double", "int", "return 'a' / 2.0;", []value.Value{int64(1)}, "48.5"},
		{"boolean", "int", "return 'a' < a && 'b' != 'a' && 'a' == 97;", []value.Value{int64(98)}, "true"},
		{"text", "int", "return String.valueOf(a > 0 ? 'y' : 'n');", []value.Value{int64(98)}, `"y"`},
		{"text", "int", `return "v" + a + 1;`, []value.Value{int64(7)}, `"v71"`},
		{"text", "int", `return a + 1 + "v";`, []value.Value{int64(7)}, `"8v"`},
		{"text", "double", `return "" + a;`, []value.Value{1e10}, `"1.0E10"`},
		{"text", "text", `return a.substring(1, 3).toUpperCase();`, []value.Value{"abcd"}, `"BC"`},
		{"text", "text", `return a.toLowerCase() + "ß".toUpperCase();`, []value.Value{"ΟΔΟΣ"}, `"οδοςSS"`},
		{"int", "int", "return a >> 1;", []value.Value{int64(-7)}, "-4"},
		{"int", "int", "int c = a; c >>= 1; return c;", []value.Value{int64(-7)}, "-4"},
		{"int", "int", "List<List<Integer>> c = new ArrayList<>(); return a >> c.size();", []value.Value{int64(7)},
			"7"},
		{"double", "double", "return Math.abs(a);", []value.Value{-1.5}, "1.5"},
		{"double", "double", "return +a;", []value.Value{math.Copysign(0, -1)}, "-0.0"},
		{"int", "int", "return Byte.compare((byte) a, (byte) 1);", []value.Value{int64(24)}, "23"},
		{"int", "text", "return a.charAt(1) + a.indexOf('c');", []value.Value{"abc"}, "100"},
		{"int", "text", `return a.length();`, []value.Value{"𝄞"}, "2"}, // in UTF-16
		{"int", "int", "int s = 0; for (int i = 0; i < a; i++) { if (i % 2 == 0) continue; s += i; } return s;",
			[]value.Value{int64(10)}, "25"},
		{"int", "int", "int i = 0; while (true) { if (i > a) break; i += 3; } return i;", []value.Value{int64(10)},
			"12"},
		{"int", "int", "byte x = 127; x++; return x;", []value.Value{int64(0)}, "-128"},
		{"boolean", "int int", "return a < b && !(a == b) || false;", []value.Value{int64(1), int64(2)}, "true"},
		{"bigint", "double", "return Math.round(a);", []value.Value{-2.5}, "-2"},
		{"float", "float float", "return a + b;", []value.Value{float64(float32(0.1)), float64(float32(0.2))},
			"0.30000001192092896"},
	} {
		got, err := execute(t, x.returns, x.argTypes, x.body, false, x.args...)
		if err != nil {
			t.Errorf("%s: %v", x.body, err)
			continue
		}
		if text := value.Describe(got); text != x.want {
			t.Errorf("%s: %s, want %s", x.body, text, x.want)
		}
	}
}

func TestNulls(t *testing.T) {
	got, err := execute(t, "int", "int int", "return a == null ? b : a;", true, nil, int64(5))
	if err != nil || got != int64(5) {
		t.Errorf("%v %v", got, err)
	}
	_, err = execute(t, "int", "int int", "return a + b;", true, nil, int64(5))
	var fault *value.Fault
	if want := `java.lang.NullPointerException: Cannot invoke "java.lang.Integer.intValue()" because "<parameter1>" is null`; !errors.As(err, &fault) || fault.Msg != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// What is outside of the subset is *Unsupported; what no Java compiler accepts is *Invalid.
func TestRefusals(t *testing.T) {
	for body, supported := range map[string]bool{
		"return new int[1][0];": false, "return switch (a) { default -> 1; };": false,
		"try { return a; } finally { }": false, "char c = 'x'; return 1;": false,
		"return System.exit(1);": false, "return Runtime.getRuntime().hashCode();": false,
		"return this.hashCode();": false, "int x; return 1;": false,
		"return java.lang.Thread.activeCount();": false, "return a instanceof Integer ? 1 : 2;": false,
		"return q;": true, "return a": true, "return \"x\";": true, "": true, "if (a > 1) return a;": true,
		"return 1; return 2;": true, "int a = 1; return a;": true,
		"return 2147483648;": true, "return a && true;": true, "x = 1; return 1;": true, "return 1L;": true,
		"return 1.0;": true, "1 + 1; return 1;": true,
		"while (true) { } return 1;": true,
	} {
		_, err := execute(t, "int", "int", body, false, int64(1))
		var unsupported *Unsupported
		var refused *Invalid
		if supported && !errors.As(err, &refused) || !supported && !errors.As(err, &unsupported) {
			t.Errorf("%q: %T %v", body, err, err)
		}
	}
}

func TestCallsEnd(t *testing.T) {
	for _, body := range []string{
		"while (true) { }", "for (int i = 0; i < 10; i--) { } return 1;", `String s = "x"; while (true) { s = s + s; }`,
		"List<Integer> l = new ArrayList<>(); while (true) { l.add(1); }",
	} {
		_, err := execute(t, "int", "int", body, false, int64(1))
		var exceeded *value.Exceeded
		if !errors.As(err, &exceeded) && !strings.Contains(body, "i--") {
			t.Errorf("%q: %v", body, err)
		}
	}
	for _, body := range []string{"return " + strings.Repeat("(", 5000) + "1", "return " + strings.Repeat("-", 5000) +
		"1;", strings.Repeat("{", 5000),
		"return 1" + strings.Repeat("+1", 5000) + ";", "return " + strings.Repeat("a?a:", 5000) + "1;"} {
		if _, err := execute(t, "int", "int", body, false, int64(1)); err == nil {
			t.Errorf("compiled %.20s…", body)
		}
	}
}

// FuzzCompile compiles arbitrary bodies, and calls those that are accepted: each ends with a value or an error.
func FuzzCompile(f *testing.F) {
	for _, body := range []string{"return a + 1;", "if (a > 1) { return 2; } else return a == 3 ? 1 : 2;",
		"for (int i = 0; i < a; i++) { } return a;",
		`String s = "x" + a; return s.length();`, "java.util.List<Integer> l = new ArrayList<>(); l.add(a); return " +
			"l.get(0);"} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) { _, _ = execute(t, "int", "int", body, false, int64(3)) })
}

// TestConversionsAreCharged converts a long text: nothing is computed before its length is checked.
func TestConversionsAreCharged(t *testing.T) {
	long := strings.Repeat("7", 1_600_000)
	for _, x := range []struct{ returns, body string }{{"varint", "return new java.math.BigInteger(a);"},
		{"decimal", "return new java.math.BigDecimal(a);"},
		{"int", "return Integer.parseInt(a);"}, {"double", "return Double.parseDouble(a);"}} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := execute(t, x.returns, "text", x.body, false, long)
		runtime.ReadMemStats(&after)
		if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 256<<10 || err == nil ||
			!strings.Contains(err.Error(), "NumberFormatException") {
			t.Errorf("%s: %d bytes, %v", x.body, bytes, err)
		}
	}
}
