package java

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"

	"cqld/udf/value"
)

// generated is a body with its signature and the arguments of some calls, drawn by a generator.
type generated struct {
	returns      string   // a type of Java, of numbers and booleans the primitive one
	params       []string // types, of a, b, …
	calledOnNull bool     // arguments are boxes
	body         string
	calls        [][]value.Value
}

// cqlTypes are the types of arguments and results by their names in Java.
var cqlTypes = map[string]string{"byte": "tinyint", "short": "smallint", "int": "int", "long": "bigint",
	"float": "float", "double": "double",
	"boolean": "boolean", "String": "text", "java.math.BigInteger": "varint", "java.math.BigDecimal": "decimal"}

// boxes are the classes of the primitive types.
var boxes = map[string]string{"byte": "Byte", "short": "Short", "int": "Integer", "long": "Long", "float": "Float",
	"double":  "Double",
	"boolean": "Boolean"}

// generator draws bodies in the subset of Java that Compile accepts. It draws types with care, so that most bodies are
// accepted by a compiler, and leaves the rest to chance: both compilers must then refuse the body.
type generator struct {
	r       *rand.Rand
	vars    []drawnVariable
	names   int
	depth   int
	loops   int // that enclose the statement
	boxed   bool
	returns string
}

type drawnVariable struct {
	name, t string
	fixed   bool // the variable of a loop, which statements do not change
}

var (
	numbers = []string{"byte", "short", "int", "long", "float", "double"}
	scalars = append([]string{"boolean", "String", "java.math.BigInteger", "java.math.BigDecimal"}, numbers...)
)

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// drawProgram draws a body, its signature and four calls.
func drawProgram(r *rand.Rand) generated {
	g := &generator{r: r, boxed: r.IntN(4) == 0, returns: pick(r, scalars...)}
	out := generated{returns: g.returns, calledOnNull: g.boxed}
	for i := range 1 + r.IntN(4) {
		t := pick(r, scalars...)
		out.params = append(out.params, t)
		if g.boxed {
			t = g.boxOf(t)
		}
		g.vars = append(g.vars, drawnVariable{name: string(rune('a' + i)), t: t})
	}
	var b strings.Builder
	for range r.IntN(5) {
		g.statement(&b)
	}
	fmt.Fprintf(&b, "return %s;", g.expr(g.returns))
	out.body = b.String()
	for range 4 {
		var args []value.Value
		for _, t := range out.params {
			if g.boxed && r.IntN(4) == 0 {
				args = append(args, nil)
			} else {
				args = append(args, drawValue(r, t))
			}
		}
		out.calls = append(out.calls, args)
	}
	return out
}

// drawValue draws a value of a type, often a border of it.
func drawValue(r *rand.Rand, t string) value.Value {
	bits := map[string]int{"byte": 8, "short": 16, "int": 32, "long": 64}
	switch t {
	case "boolean":
		return r.IntN(2) == 0
	case "String":
		return drawText(r)
	case "java.math.BigInteger":
		n, _ := new(big.Int).SetString(pick(r, "0", "1", "-1", "7", "-13", "9223372036854775808",
			"-123456789012345678901234567890"), 10)
		return n
	case "java.math.BigDecimal":
		d, _, _ := apd.NewFromString(pick(r, "0", "1", "-1.50", "0.001", "100", "12345678901234567890.123", "-0.00",
			"7E+3"))
		return d
	case "float":
		return float64(pick(r, 0, 1, -1.5, 0.1, 16777217, 3e9, 1e20, -1e-40, float32(math.Inf(1)), float32(math.NaN()),
			math.MaxFloat32))
	case "double":
		return pick(r, 0, 1, -1.5, 0.1, math.Copysign(0, -1), 2147483648.5, 1e19, -2.5, math.Inf(-1), math.NaN(),
			math.MaxFloat64, 5e-324)
	}
	low := int64(-1) << (bits[t] - 1)
	return pick(r, 0, 1, -1, 2, 7, -13, 100, low, ^low, low+1, r.Int64()>>(64-bits[t]))
}

func drawText(r *rand.Rand) string {
	return pick(r, "", "a", "ab", "abc", "Hello, World", "  x ", "é", "straße", "12", "-7", "1.5", "0x1", " 3", "ΟΔΟΣ",
		"\u00a0t", "aaa", "ǆ", "İ")
}

func (g *generator) boxOf(t string) string {
	if b := boxes[t]; b != "" {
		return b
	}
	return t
}

// drawLiteral writes a literal.
func (g *generator) literal(t string) string {
	r := g.r
	switch t {
	case "boolean":
		return pick(r, "true", "false")
	case "String":
		return strconv.QuoteToASCII(pick(r, "", "a", "b", "x y", "7", "é", "\n", "'"))
	case "java.math.BigInteger":
		return pick(r, "java.math.BigInteger.ONE", "java.math.BigInteger.valueOf(-5)",
			`new java.math.BigInteger("123456789012345678901")`,
			"java.math.BigInteger.TEN")
	case "java.math.BigDecimal":
		return pick(r, "java.math.BigDecimal.ONE", `new java.math.BigDecimal("1.50")`,
			`new java.math.BigDecimal("-1E+3")`,
			"java.math.BigDecimal.valueOf(25)", "java.math.BigDecimal.valueOf(0.5)")
	case "long":
		return pick(r, "0L", "1L", "-1L", "9223372036854775807L", "-9223372036854775808L", "4294967296L",
			"0x7fffffffffL", "Long.MIN_VALUE")
	case "float":
		return pick(r, "0f", "1.5f", "-0.1f", "1e10f", "16777216f")
	case "double":
		return pick(r, "0.0", "1.5", "-0.1", "1e10", "Math.PI", "1e308", "2d", "Double.NaN", "Double.MIN_VALUE",
			`Double.parseDouble("`+pick(r, "1e400", " -1.5f ", "0x1.8p1", "--NaN", "-NaN", "+Infinity", "1dd", "0x1d", "",
				"nan", "1_0", ".5", "1e")+`")`)
	case "byte", "short":
		return pick(r, fmt.Sprintf("(%s) %s", t, g.literal("int")), boxes[t]+".MAX_VALUE", boxes[t]+".MIN_VALUE",
			"Byte.MAX_VALUE", "Short.MIN_VALUE", "1 << 3", "1 << 15", "-1 >>> 28", "0xff & 7", "~5 | 2", "5 ^ 300",
			"(short) 5", "(byte) 300")
	}
	return pick(r, "0", "1", "-1", "2", "7", "31", "2147483647", "-2147483648", "'a'", "'\\u00e9'", "0xff", "1_000",
		"Integer.MAX_VALUE", "33")
}

// variable returns a variable of a type, or of its box.
func (g *generator) variable(t string) string {
	var fit []string
	for _, v := range g.vars {
		if v.t == t || v.t == g.boxOf(t) {
			fit = append(fit, v.name)
		}
	}
	if len(fit) == 0 {
		return ""
	}
	return pick(g.r, fit...)
}

// expr draws an expression that can be assigned to a primitive type or class.
func (g *generator) expr(t string) string {
	if g.depth++; g.depth > 4 || g.r.IntN(4) == 0 {
		g.depth--
		if v := g.variable(t); v != "" && g.r.IntN(5) > 0 {
			return v
		}
		return g.literal(t)
	}
	defer func() { g.depth-- }()
	if g.r.IntN(8) == 0 {
		return fmt.Sprintf("(%s ? %s : %s)", g.expr("boolean"), g.expr(t), g.expr(t))
	}
	switch t {
	case "boolean":
		return g.condition()
	case "String":
		return g.text()
	case "java.math.BigInteger":
		return g.bigInteger()
	case "java.math.BigDecimal":
		return fmt.Sprintf("%s.%s(%s)", g.object(t), pick(g.r, "add", "subtract", "multiply"), g.expr(t))
	}
	return g.number(t)
}

// object draws an expression whose methods can be called.
func (g *generator) object(t string) string {
	if v := g.variable(t); v != "" && g.r.IntN(2) == 0 {
		return v
	}
	return "(" + g.expr(t) + ")"
}

// narrower returns a numeric type whose values are converted to t without a cast.
func (g *generator) narrower(t string) string {
	for i, n := range numbers {
		if n == t {
			return numbers[g.r.IntN(i+1)]
		}
	}
	return t
}

func (g *generator) number(t string) string {
	r := g.r
	if t == "byte" || t == "short" {
		if r.IntN(4) == 0 {
			return fmt.Sprintf("%s.parse%s(%s)", boxes[t], boxes[t], g.expr("String"))
		}
		return fmt.Sprintf("(%s) (%s)", t, g.expr(pick(r, numbers...)))
	}
	switch r.IntN(10) {
	case 0:
		return fmt.Sprintf("(%s) (%s)", t, g.expr(pick(r, numbers...)))
	case 1:
		return fmt.Sprintf("Math.%s(%s, %s)", pick(r, "max", "min"), g.expr(t), g.expr(g.narrower(t)))
	case 2:
		return pick(r, "-", "+", "Math.abs") + "(" + g.expr(t) + ")"
	case 3:
		return fmt.Sprintf("%s.%s(%s)", boxes[t], "valueOf", g.expr(t)) +
			pick(r, "", "."+t+"Value()", ".doubleValue() > 1 ? 1 : 0")
	case 4:
		return fmt.Sprintf("new %s(%s)", boxes[t], g.expr(t))
	}
	switch t {
	case "int":
		return g.intOnly()
	case "long":
		if n := g.longOnly(); n != "" {
			return n
		}
	case "double":
		if r.IntN(3) == 0 {
			return fmt.Sprintf("Math.%s(%s)", pick(r, "sqrt", "floor", "ceil", "rint"), g.expr(pick(r, numbers...)))
		}
	}
	operators := []string{"+", "-", "*", "/", "%"}
	if t == "int" || t == "long" {
		operators = append(operators, "&", "|", "^", "<<", ">>", ">>>")
	}
	left, right := g.expr(t), g.expr(g.narrower(t))
	if r.IntN(2) == 0 {
		return fmt.Sprintf("(%s) %s (%s)", left, pick(r, operators...), right)
	}
	return fmt.Sprintf("%s %s %s", left, pick(r, operators...), right) // by precedence; possibly of another type
}

// longOnly draws an expression of type long, or nothing.
func (g *generator) longOnly() string {
	switch g.r.IntN(5) {
	case 0:
		return fmt.Sprintf("Math.round(%s)", g.expr("double"))
	case 1:
		return fmt.Sprintf("Long.parseLong(%s)", g.expr("String"))
	case 2:
		return fmt.Sprintf("Math.%s(%s, %s)", pick(g.r, "floorMod", "floorDiv"), g.expr("long"), g.expr("long"))
	case 3:
		return g.object("java.math.BigInteger") + ".longValue()"
	}
	return ""
}

// intOnly draws an expression of type int.
func (g *generator) intOnly() string {
	r := g.r
	switch r.IntN(15) {
	case 11:
		return fmt.Sprintf("%s.charAt(%s) %s %s", g.object("String"), pick(r, "0", "1", g.expr("int")),
			pick(r, "+", "-", "/", "%"), g.expr("int"))
	case 12:
		return fmt.Sprintf("%s.%s('a')", g.object("String"), pick(r, "indexOf", "lastIndexOf"))
	case 13:
		return g.object("String") + ".hashCode()"
	case 0:
		return g.object("String") + ".length()"
	case 1:
		return fmt.Sprintf("%s.%s(%s)", g.object("String"), pick(r, "indexOf", "lastIndexOf", "compareTo"),
			g.expr("String"))
	case 2:
		return fmt.Sprintf("Integer.parseInt(%s)", g.expr("String"))
	case 3:
		t := pick(r, numbers...)
		return fmt.Sprintf("%s.compare(%s, %s)", boxes[t], g.expr(t), g.expr(t))
	case 4:
		return fmt.Sprintf("Math.round(%s)", g.expr("float"))
	case 5:
		return fmt.Sprintf("Integer.%s(%s, %s)", pick(r, "sum", "max", "min"), g.expr("int"),
			g.expr(pick(r, "int", "short", "byte")))
	case 6:
		return g.object(pick(r, "java.math.BigInteger", "java.math.BigDecimal")) + ".signum()"
	case 7:
		return "~(" + g.expr("int") + ")"
	case 8:
		if v := g.assignable("int"); v != "" {
			return pick(r, v+"++", "++"+v, v+"--", "--"+v)
		}
	case 9:
		return fmt.Sprintf("Math.%s(%s, %s)", pick(r, "floorMod", "floorDiv"), g.expr("int"), g.expr("int"))
	case 10:
		t := pick(r, "java.math.BigInteger", "java.math.BigDecimal")
		return fmt.Sprintf("%s.compareTo(%s)", g.object(t), g.expr(t))
	}
	return fmt.Sprintf("(%s) %s %s", g.expr(pick(r, "int", "short", "byte")),
		pick(r, "+", "-", "*", "/", "%", "<<", ">>>", "&"),
		g.expr(pick(r, "int", "byte")))
}

func (g *generator) condition() string {
	r := g.r
	switch r.IntN(10) {
	case 0:
		return "!(" + g.expr("boolean") + ")"
	case 1, 2:
		return fmt.Sprintf("%s %s %s", g.expr("boolean"), pick(r, "&&", "||", "&", "|", "^", "==", "!="),
			g.expr("boolean"))
	case 3:
		return fmt.Sprintf("%s.%s(%s)", g.object("String"),
			pick(r, "equals", "startsWith", "endsWith", "contains", "equalsIgnoreCase"),
			pick(r, g.expr("String"), g.expr("String"), g.expr("String"), "(String) null", `"\u0130"`))
	case 4:
		return g.object("String") + pick(r, ".isEmpty()", ".charAt(0) == 'a'", ".charAt(0) >= 98")
	case 5:
		if g.boxed {
			return pick(r, g.vars...).name + pick(r, " == null", " != null")
		}
	case 6:
		t := pick(r, "java.math.BigInteger", "String")
		return fmt.Sprintf("%s.equals(%s)", g.object(t), g.expr(t))
	case 7:
		t := pick(r, numbers...)
		return fmt.Sprintf("%s.valueOf(%s).equals(%s)", boxes[t], g.expr(t), g.expr(pick(r, t, "int")))
	}
	return fmt.Sprintf("(%s) %s (%s)", g.expr(pick(r, numbers...)), pick(r, "<", ">", "<=", ">=", "==", "!="),
		g.expr(pick(r, numbers...)))
}

// text draws a String. It contains no doubles and floats, whose text differs between versions of Java (differences.md).
func (g *generator) text() string {
	r := g.r
	whole := []string{"byte", "short", "int", "long", "boolean", "String", "java.math.BigInteger",
		"java.math.BigDecimal"}
	switch r.IntN(9) {
	case 0:
		return fmt.Sprintf("%s.%s()", g.object("String"), pick(r, "toUpperCase", "toLowerCase", "trim", "toString"))
	case 1:
		return fmt.Sprintf("%s.substring(%s)", g.object("String"), pick(r, "1", "0", "2", g.expr("int")))
	case 2:
		return fmt.Sprintf("%s.substring(%s, %s)", g.object("String"), pick(r, "0", "1", g.expr("int")),
			pick(r, "1", "2", g.expr("int")))
	case 3:
		return fmt.Sprintf("%s.replace(%s, %s)", g.object("String"), g.expr("String"), g.expr("String"))
	case 4:
		return fmt.Sprintf("String.valueOf(%s)", g.expr(pick(r, whole...)))
	case 5:
		return fmt.Sprintf("%s.concat(%s)", g.object("String"), g.expr("String"))
	case 6:
		return fmt.Sprintf("(%s.replace('a', %s) + %s.charAt(%s))", g.object("String"), pick(r, "'b'", `'\''`),
			g.object("String"), g.expr("int"))
	}
	left, right := g.expr("String"), g.expr(pick(r, whole...))
	if r.IntN(3) == 0 {
		left, right = right, left
	}
	return "(" + left + " + " + pick(r, "", "1 + ", "':' + ") + right + ")"
}

func (g *generator) bigInteger() string {
	switch g.r.IntN(5) {
	case 0:
		return fmt.Sprintf("java.math.BigInteger.valueOf(%s)", g.expr("long"))
	case 1:
		return g.object("java.math.BigInteger") + pick(g.r, ".negate()", ".abs()")
	case 2:
		return fmt.Sprintf("new java.math.BigInteger(%s)", g.expr("String"))
	}
	return fmt.Sprintf("%s.%s(%s)", g.object("java.math.BigInteger"),
		pick(g.r, "add", "subtract", "multiply", "divide", "mod", "remainder"),
		g.expr("java.math.BigInteger"))
}

// assignable returns a variable of a primitive type or class that statements may change.
func (g *generator) assignable(t string) string {
	for _, v := range g.vars {
		if v.t == t && !v.fixed && g.r.IntN(2) == 0 {
			return v.name
		}
	}
	return ""
}

func (g *generator) name() string {
	g.names++
	return "v" + strconv.Itoa(g.names)
}

// statement draws a statement, with more inside.
func (g *generator) statement(b *strings.Builder) {
	g.depth++
	defer func() { g.depth-- }()
	r := g.r
	switch r.IntN(11) {
	case 0, 1, 2:
		t := pick(r, scalars...)
		declared := pick(r, t, t, g.boxOf(t), "final "+t)
		name := g.name()
		fmt.Fprintf(b, "%s %s = %s; ", declared, name, g.expr(t))
		g.vars = append(g.vars, drawnVariable{name, strings.TrimPrefix(declared, "final "),
			strings.HasPrefix(declared, "final ")})
	case 3, 4:
		g.assignment(b)
	case 5:
		fmt.Fprintf(b, "if (%s) ", g.expr("boolean"))
		g.block(b)
		if r.IntN(2) == 0 {
			b.WriteString("else ")
			g.block(b)
		}
	case 6:
		name := g.name()
		outer := len(g.vars)
		fmt.Fprintf(b, "for (int %s = 0; %s < %d; %s) ", name, name, r.IntN(5),
			pick(r, name+"++", "++"+name, name+" += 2"))
		g.vars = append(g.vars, drawnVariable{name, "int", true})
		g.loops++
		g.block(b)
		g.loops--
		g.vars = g.vars[:outer]
	case 7:
		g.collection(b)
	case 8:
		switch {
		case g.loops > 0:
			fmt.Fprintf(b, "if (%s) %s; ", g.expr("boolean"), pick(r, "break", "continue"))
		default:
			fmt.Fprintf(b, "if (%s) return %s; ", g.expr("boolean"), g.expr(g.returns))
		}
	case 9:
		fmt.Fprintf(b, "if (%s) throw new %s(%s); ", g.expr("boolean"),
			pick(r, "IllegalStateException", "RuntimeException",
				"java.util.NoSuchElementException"), pick(r, "", `"m"`, g.expr("String")))
	default:
		if v := g.assignable(pick(r, "int", "long", "byte", "double")); v != "" {
			fmt.Fprintf(b, "%s; ", pick(r, v+"++", v+"--", "++"+v))
		}
	}
}

func (g *generator) block(b *strings.Builder) {
	outer := len(g.vars)
	b.WriteString("{ ")
	for range 1 + g.r.IntN(2) {
		if g.depth < 4 {
			g.statement(b)
		}
	}
	b.WriteString("} ")
	g.vars = g.vars[:outer]
}

func (g *generator) assignment(b *strings.Builder) {
	r := g.r
	t := pick(r, scalars...)
	v := g.assignable(pick(r, t, t, g.boxOf(t)))
	if v == "" {
		return
	}
	op := "="
	switch {
	case t == "String":
		op = pick(r, "=", "+=")
	case t == "boolean":
		op = pick(r, "=", "&=", "|=", "^=")
	case t == "float" || t == "double":
		op = pick(r, "=", "+=", "*=", "/=", "%=")
	case boxes[t] != "":
		op = pick(r, "=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", ">>>=", "&=", "^=")
	}
	of := t
	if boxes[t] != "" && op != "=" && op[0] != '<' && op[0] != '>' && op[0] != '&' && op[0] != '^' && op[0] != '|' &&
		t != "boolean" {
		of = pick(r, numbers...)
	}
	fmt.Fprintf(b, "%s %s %s; ", v, op, g.expr(of))
}

// present draws an expression that is not null: collections hold no null here.
func (g *generator) present(t string) string {
	if g.boxed {
		return g.literal(t)
	}
	return g.expr(t)
}

// collection draws statements that fill a collection and read it.
func (g *generator) collection(b *strings.Builder) {
	r := g.r
	t := pick(r, "int", "long", "String", "java.math.BigInteger")
	e, name, out := g.boxOf(t), g.name(), g.name()
	switch r.IntN(3) {
	case 0:
		fmt.Fprintf(b, "java.util.List<%s> %s = new java.util.ArrayList<>(); ", e, name)
		for range r.IntN(4) {
			fmt.Fprintf(b, "%s.add(%s); ", name, g.present(t))
		}
		fmt.Fprintf(b, "%s %s = %s; ", t, out, pick(r, name+".get("+pick(r, "0", "1", g.expr("int"))+")",
			fmt.Sprintf("%s.contains(%s) ? %s.get(0) : %s", name, g.expr(t), name, g.literal(t))))
	case 1:
		fmt.Fprintf(b, "java.util.Set<%s> %s = new java.util.LinkedHashSet<>(); ", e, name)
		for range r.IntN(4) {
			fmt.Fprintf(b, "%s.%s(%s); ", name, pick(r, "add", "add", "remove"), g.present(t))
		}
		t, e = "int", "int"
		fmt.Fprintf(b, "int %s = %s.size(); ", out, name)
	default:
		fmt.Fprintf(b, "java.util.Map<%s, Integer> %s = new java.util.LinkedHashMap<%s, Integer>(); ", e, name, e)
		for range r.IntN(4) {
			fmt.Fprintf(b, "%s.%s(%s, %s); ", name, pick(r, "put", "putIfAbsent"), g.present(t), g.present("int"))
		}
		fmt.Fprintf(b, "int %s = %s.getOrDefault(%s, %s.size()); ", out, name, g.expr(t), name)
		t = "int"
	}
	g.vars = append(g.vars, drawnVariable{name: out, t: t})
	if r.IntN(3) == 0 && strings.Contains(b.String(), "List<"+e+"> "+name) {
		x := g.name()
		fmt.Fprintf(b, "for (%s %s : %s) { ", e, x, name)
		g.vars = append(g.vars, drawnVariable{x, e, true})
		g.loops++
		g.assignment(b)
		g.loops--
		g.vars = g.vars[:len(g.vars)-1]
		b.WriteString("} ")
	}
}
