package java

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/cockroachdb/apd/v3"

	"cqld/udf/value"
)

var (
	programsFlag = flag.Int("programs", 400, "number of bodies in TestGeneratedBodiesMatchJava")
	seedFlag     = flag.Uint64("seed", 1, "seed of TestGeneratedBodiesMatchJava")
)

// TestGeneratedBodiesMatchJava draws bodies and compares this package with a Java virtual machine: what a Java compiler
// accepts is accepted here, what it refuses is refused, and all calls have the same results and exceptions.
func TestGeneratedBodiesMatchJava(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a JDK")
	}
	if _, err := exec.LookPath("javac"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	r := rand.New(rand.NewPCG(*seedFlag, 0))
	programs := make([]generated, *programsFlag)
	for i := range programs {
		programs[i] = drawProgram(r)
	}
	refused, results := runJava(t, programs)
	var unsupported, failed int
	for i, p := range programs {
		f := Function{Body: p.body, Returns: parsed(t, cqlTypes[p.returns]), CalledOnNull: p.calledOnNull}
		for n, param := range p.params {
			f.ArgNames, f.ArgTypes = append(f.ArgNames, string(rune('a'+n))),
				append(f.ArgTypes, parsed(t, cqlTypes[param]))
		}
		compiled, err := Compile(f)
		var outside *Unsupported
		switch {
		case errors.As(err, &outside):
			if unsupported++; unsupported <= 5 {
				t.Logf("program %d: not supported: %v\n%s", i, err, p.body)
			}
			continue
		case err == nil && strings.Contains(refused[i], "bad type in conditional expression"):
			continue // javac takes some conditional expressions with a character for polymorphic ones
		case err != nil != (refused[i] != ""):
			if failed++; failed <= 10 {
				t.Errorf("program %d: %v; a Java compiler: %q\n%s %v\n%s", i, err, refused[i], p.returns, p.params,
					p.body)
			}
			continue
		case err != nil:
			continue
		}
		for n, args := range p.calls {
			got, err := compiled.Run(value.NewMeter(value.Limits{Steps: 1_000_000, Bytes: 1 << 24}, nil), args)
			if text := shown(p.returns, got, err); !sameResult(text, results[[2]int{i, n}]) {
				if failed++; failed <= 10 {
					t.Errorf("program %d%s: %s, in Java %s\n%s %v\n%s", i, described(args), text,
						results[[2]int{i, n}], p.returns, p.params, p.body)
				}
			}
		}
	}
	t.Logf("%d bodies, %d refused by both, %d not supported, %d differences", len(programs), len(refused), unsupported,
		failed)
	if unsupported > len(programs)/20 {
		t.Errorf("%d of %d bodies are not supported", unsupported, len(programs))
	}
}

func described(args []value.Value) string {
	var list []string
	for _, a := range args {
		list = append(list, value.Describe(a))
	}
	return "(" + strings.Join(list, ", ") + ")"
}

// sameResult compares results. Of exceptions, the messages of those that a body throws are compared.
func sameResult(got, want string) bool {
	class, ok := strings.CutPrefix(got, "! ")
	if !ok || strings.Contains(class, "IllegalState") || strings.Contains(class, "RuntimeException") ||
		strings.Contains(class, "NoSuchElement") {
		return got == want
	}
	class, _, _ = strings.Cut(class, ":")
	other, _, _ := strings.Cut(strings.TrimPrefix(want, "! "), ":")
	return strings.HasPrefix(want, "! ") && class == other
}

// shown writes a result as the program of runJava does.
func shown(t string, v value.Value, err error) string {
	var fault *value.Fault
	switch {
	case errors.As(err, &fault):
		return "! " + strconv.QuoteToASCII(fault.Msg)[1:len(strconv.QuoteToASCII(fault.Msg))-1]
	case err != nil:
		return "error " + err.Error()
	case v == nil:
		return "null"
	}
	switch v := v.(type) {
	case float64:
		if v != v {
			return "NaN"
		}
		if t == "float" {
			return fmt.Sprintf("%x", math.Float32bits(float32(v)))
		}
		return fmt.Sprintf("%x", math.Float64bits(v))
	case string:
		return fmt.Sprintf("%x", utf16.Encode([]rune(v)))
	case *apd.Decimal:
		n := v.Coeff.MathBigInt()
		if v.Negative {
			n.Neg(n)
		}
		return fmt.Sprintf("%s scale %d", n, -v.Exponent)
	}
	return fmt.Sprint(v)
}

// javaLiteral writes a value as an expression of Java.
func javaLiteral(t string, v value.Value, boxed bool) string {
	if v == nil {
		return fmt.Sprintf("(%s) null", (&generator{}).boxOf(t))
	}
	switch v := v.(type) {
	case string:
		var b strings.Builder
		for _, u := range utf16.Encode([]rune(v)) {
			fmt.Fprintf(&b, "\\u%04x", u)
		}
		return `"` + b.String() + `"`
	case float64:
		text := fmt.Sprintf("Double.longBitsToDouble(0x%xL)", math.Float64bits(v))
		if t == "float" {
			text = fmt.Sprintf("Float.intBitsToFloat(0x%x)", math.Float32bits(float32(v)))
		}
		return text
	case *big.Int:
		return fmt.Sprintf("new java.math.BigInteger(%q)", v.String())
	case *apd.Decimal:
		n := v.Coeff.MathBigInt()
		if v.Negative {
			n.Neg(n)
		}
		return fmt.Sprintf("new java.math.BigDecimal(new java.math.BigInteger(\"%v\"), %d)", n, -v.Exponent)
	case int64:
		return fmt.Sprintf("(%s) %dL", t, v)
	}
	return fmt.Sprint(v)
}

// javaPrelude is the beginning of the class: it writes results and exceptions as shown does.
const javaPrelude = `class Generated {
static String show(Object o) {
  if (o instanceof Double) {
    Double d = (Double) o;
    return d.isNaN() ? "NaN" : Long.toHexString(Double.doubleToRawLongBits(d));
  }
  if (o instanceof Float) {
    Float f = (Float) o;
    return f.isNaN() ? "NaN" : Integer.toHexString(Float.floatToRawIntBits(f));
  }
  if (o instanceof java.math.BigDecimal) {
    java.math.BigDecimal d = (java.math.BigDecimal) o;
    return d.unscaledValue() + " scale " + d.scale();
  }
  if (!(o instanceof String)) return String.valueOf(o);
  StringBuilder b = new StringBuilder("[");
  for (char c : ((String) o).toCharArray()) {
    if (b.length() > 1) b.append(' ');
    b.append(Integer.toHexString(c));
  }
  return b.append("]").toString();
}
static void thrown(int i, int n, Throwable e) {
  StringBuilder b = new StringBuilder();
  for (char c : e.toString().toCharArray()) {
    if (c == '\n') b.append("\\n");
    else if (c < 32 || c > 126) b.append(String.format(c < 128 ? "\\x%02x" : "\\u%04x", (int) c));
    else if (c == '"' || c == '\\') b.append('\\').append(c);
    else b.append(c);
  }
  System.out.println(i + " " + n + " ! " + b);
}
`

// runJava compiles the bodies with a Java compiler and calls those that it accepts. It returns the errors of the
// others, and the results by body and call.
func runJava(t *testing.T, programs []generated) (refused map[int]string, results map[[2]int]string) {
	dir := t.TempDir()
	refused = map[int]string{}
	for {
		source, lines := javaSource(programs, refused)
		file := filepath.Join(dir, "Generated.java")
		if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("javac", "-nowarn", "-proc:none", "-encoding", "UTF-8", "-Xmaxerrs", "100000", "-d",
			dir, file).CombinedOutput()
		if err == nil {
			break
		}
		before := len(refused)
		for _, m := range regexp.MustCompile(`Generated\.java:(\d+): error: (.*)`).FindAllStringSubmatch(string(out),
			-1) {
			line, _ := strconv.Atoi(m[1])
			if i, ok := lines[line]; ok {
				refused[i] = m[2]
			}
		}
		if len(refused) == before {
			t.Fatalf("javac: %v\n%.4000s", err, out)
		}
	}
	out, err := exec.Command("java", "-Duser.language=en", "-Xmx256m", "-XX:+UseSerialGC", "-cp", dir,
		"Generated").CombinedOutput()
	if err != nil {
		t.Fatalf("java: %v\n%.4000s", err, out)
	}
	results = map[[2]int]string{}
	for line := range strings.Lines(string(out)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		i, _ := strconv.Atoi(parts[0])
		n, _ := strconv.Atoi(parts[1])
		results[[2]int{i, n}] = parts[2]
	}
	return refused, results
}

// javaSource writes a class with a method for each body that is not refused. lines are the bodies by their line.
func javaSource(programs []generated, refused map[int]string) (source string, lines map[int]int) {
	lines = map[int]int{}
	var b, main strings.Builder
	b.WriteString(javaPrelude)
	line := strings.Count(javaPrelude, "\n") + 1
	g := &generator{}
	for i, p := range programs {
		if _, ok := refused[i]; ok {
			continue
		}
		var params []string
		for n, param := range p.params {
			if p.calledOnNull {
				param = g.boxOf(param)
			}
			params = append(params, fmt.Sprintf("%s %c", param, 'a'+n))
		}
		returns := p.returns
		if p.calledOnNull {
			returns = g.boxOf(returns)
		}
		fmt.Fprintf(&b, "static %s f%d(%s) { %s }\n", returns, i, strings.Join(params, ", "), p.body)
		lines[line] = i
		fmt.Fprintf(&b, "static void call%d() {", i)
		for n, args := range p.calls {
			var list []string
			for k, a := range args {
				list = append(list, javaLiteral(p.params[k], a, p.calledOnNull))
			}
			fmt.Fprintf(&b, " try { System.out.println(\"%d %d \" + show(f%d(%s))); } catch (Throwable e) { "+
				"thrown(%d, %d, e); }",
				i, n, i, strings.Join(list, ", "), i, n)
		}
		b.WriteString(" }\n")
		line += 2
		fmt.Fprintf(&main, "call%d();\n", i)
	}
	fmt.Fprintf(&b, "public static void main(String[] args) {\n%s} }\n", main.String())
	return b.String(), lines
}
