package java

import (
	"errors"
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
func execute(t testing.TB, returns, argTypes, body string, args ...value.Value) (value.Value, error) {
	t.Helper()
	f := Function{Body: body, Returns: parsed(t, returns)}
	for i, text := range strings.Fields(argTypes) {
		f.ArgNames, f.ArgTypes = append(f.ArgNames, string(rune('a'+i))), append(f.ArgTypes, parsed(t, text))
	}
	p, err := Compile(f)
	if err != nil {
		return nil, err
	}
	return p.Run(value.NewMeter(value.Limits{Steps: 100000, Bytes: 1 << 20}, nil), args)
}

func TestCallsEnd(t *testing.T) {
	for _, body := range []string{
		"while (true) { }", "for (int i = 0; i < 10; i--) { } return 1;", `String s = "x"; while (true) { s = s + s; }`,
		"List<Integer> l = new ArrayList<>(); while (true) { l.add(1); }",
	} {
		_, err := execute(t, "int", "int", body, int64(1))
		var exceeded *value.Exceeded
		if !errors.As(err, &exceeded) && !strings.Contains(body, "i--") {
			t.Errorf("%q: %v", body, err)
		}
	}
	for _, body := range []string{"return " + strings.Repeat("(", 5000) + "1", "return " + strings.Repeat("-", 5000) +
		"1;", strings.Repeat("{", 5000),
		"return 1" + strings.Repeat("+1", 5000) + ";", "return " + strings.Repeat("a?a:", 5000) + "1;"} {
		if _, err := execute(t, "int", "int", body, int64(1)); err == nil {
			t.Errorf("compiled %.20s…", body)
		}
	}
}

// rawBodies use collections without types of elements, or with a wrong number of them, where a type is needed.
func rawBodies() []string {
	return []string{"var l = new ArrayList(); for (var x : l) { } return 1;",
		"var l = new HashSet(); for (Integer x : l) { return x; } return 1;",
		"List l = new ArrayList(); for (Integer x : l) { return x; } return 1;",
		"var l = new ArrayList<>(); for (var x : l) { } return 1;", "Set<> s = new HashSet<>(); return s.size();",
		"Map<Integer> m = new HashMap<>(); return m.get(1);", "List<Integer, Integer> l = new ArrayList<>(); return 1;",
		"var m = new HashMap<Integer>(); for (var x : m.values()) { } return 1;",
		"var m = new HashMap(); for (var x : m.keySet()) { } return 1;", "var l = new ArrayList(); return l.get(0);",
		"var l = new ArrayList<Integer, String, Long>(); return l.get(0);", "String<Integer> s = \"\"; return 1;",
		"Integer<Integer> i = 1; return i;", "List<Map<Integer>> l = new ArrayList<>(); return 1;"}
}

// TestTypesOfElementsAreNeeded compiles bodies that need the type of an element which is not known.
func TestTypesOfElementsAreNeeded(t *testing.T) {
	for _, body := range rawBodies() {
		_, err := execute(t, "int", "int", body, int64(1))
		var refused *Invalid
		var unsupported *Unsupported
		if !errors.As(err, &refused) && !errors.As(err, &unsupported) {
			t.Errorf("%s: %v", body, err)
		}
	}
	for _, body := range []string{"Map<Integer, List<Integer>> m = new HashMap<>(); return m.size();",
		"var l = new ArrayList(); return l.size();", "List l = new ArrayList<Integer>(); return l.size();"} {
		if v, err := execute(t, "int", "int", body, int64(1)); v != int64(0) {
			t.Errorf("%s: %v, %v", body, v, err)
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
	for _, body := range rawBodies() {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) { _, _ = execute(t, "int", "int", body, int64(3)) })
}

// TestConversionsAreCharged converts a long text: nothing is computed before its length is checked.
func TestConversionsAreCharged(t *testing.T) {
	long := strings.Repeat("7", 1_600_000)
	for _, x := range []struct{ returns, body string }{{"varint", "return new java.math.BigInteger(a);"},
		{"decimal", "return new java.math.BigDecimal(a);"},
		{"int", "return Integer.parseInt(a);"}, {"double", "return Double.parseDouble(a);"}} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := execute(t, x.returns, "text", x.body, long)
		runtime.ReadMemStats(&after)
		if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 256<<10 || err == nil ||
			!strings.Contains(err.Error(), "NumberFormatException") {
			t.Errorf("%s: %d bytes, %v", x.body, bytes, err)
		}
	}
}
