//go:build integration

package integration

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"cqld/integration/cqlclient"
)

// functions creates functions with generated, damaged and expensive sources, and calls them.
func (h *hostile) functions(ctx context.Context, r *rand.Rand, count *atomic.Int64) {
	h.session(ctx, func(c *cqlclient.Conn) error {
		plain := fmt.Sprintf("f%d", r.IntN(8))
		name := "h." + plain
		language, source := hostileFunction(r, plain)
		onNull := "CALLED"
		if language == "wasm" {
			onNull = "RETURNS NULL" // otherwise values are passed in memory
		}
		quoted := "'" + strings.ReplaceAll(source, "'", "''") + "'"
		for _, text := range []string{
			"CREATE TABLE IF NOT EXISTS h.r (k int, c int, v int, l list<int>, m map<int, text>, PRIMARY KEY (k, c))",
			"INSERT INTO h.r (k, c, v) VALUES (1, 1, 1)",
			"CREATE OR REPLACE FUNCTION " + name + " (x int) " + onNull + " ON NULL INPUT RETURNS int LANGUAGE " +
				language + " AS " + quoted,
			"SELECT " + name + "(v) FROM h.r LIMIT 10",
			"SELECT " + name + "(" + name + "(v)) FROM h.r WHERE k = 1",
		} {
			if err := attempt(c, count, text, cqlclient.Options{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// hostileFunction returns a language and a source of 1 byte to 4 MB for a function with a name.
func hostileFunction(r *rand.Rand, name string) (language, source string) {
	n := 1
	for range r.IntN(6) {
		n *= 10
	}
	switch r.IntN(3) {
	case 0:
		return "lua", damage(r, luaSource(r, n))
	case 1:
		return "java", damage(r, javaSource(r, n))
	default:
		return "wasm", base64.StdEncoding.EncodeToString([]byte(damage(r, string(wasmModule(r, name, n)))))
	}
}

// damage sometimes changes, removes or repeats a part of a source.
func damage(r *rand.Rand, s string) string {
	if len(s) == 0 || r.IntN(3) > 0 {
		return s
	}
	b := []byte(s)
	i := r.IntN(len(b))
	switch r.IntN(3) {
	case 0:
		b[i] ^= byte(1 << r.IntN(8))
	case 1:
		b = append(b[:i:i], b[min(len(b), i+1+r.IntN(16)):]...)
	default:
		b = append(b[:i:i], b[max(0, i-r.IntN(64)):]...)
	}
	return string(b)
}

// luaSource returns a body in Lua that is long, nested, or expensive to execute.
func luaSource(r *rand.Rand, n int) string {
	repeat := func(s string) string { return strings.Repeat(s, min(n, 4<<20/len(s))) }
	return []string{
		"return x + 1",
		"while true do end",
		"local t = {} for i = 1, 1e9 do t[i] = i end return #t",
		"local s = 'x' for i = 1, 60 do s = s .. s end return #s",
		"return #string.rep('x', 1e9)",
		"return integer('" + repeat("9") + "')",
		"return decimal('" + repeat("9") + "')",
		"return " + repeat("(") + "x" + repeat(")"),
		"return x" + repeat(" + x"),
		repeat("if x then ") + "return x " + repeat("end "),
		repeat("local a = x ") + "return x",
		"local s = string.rep('a', 30000) return #(string.gsub(s, '.-b', 'c'))",
		"local function f(y) return f(y) + 1 end return f(x)",
		"return tonumber(string.format('%" + fmt.Sprint(n) + "d', x))",
		"local t = {} for i = 1, 100000 do t[i] = tostring(i) end table.sort(t) return #table.concat(t)",
	}[r.IntN(15)]
}

// javaSource returns a body in Java that is long, nested, or expensive to execute.
func javaSource(r *rand.Rand, n int) string {
	repeat := func(s string) string { return strings.Repeat(s, min(n, 4<<20/len(s))) }
	return []string{
		"return x + 1;",
		"while (true) { }",
		"String s = \"x\"; for (int i = 0; i < 60; i++) s = s + s; return s.length();",
		"return new java.math.BigInteger(\"" + repeat("9") + "\").bitLength();",
		"java.math.BigInteger b = java.math.BigInteger.TEN; for (int i = 0; i < 40; i++) b = b.multiply(b); return " +
			"b.bitLength();",
		"return " + repeat("(") + "x" + repeat(")") + ";",
		"return x" + repeat(" + x") + ";",
		repeat("if (x > 0) { ") + repeat("} ") + "return x;",
		repeat("int a = 1; ") + "return x;",
		"int[] a = new int[" + fmt.Sprint(n) + "0000]; return a.length;",
		"java.util.ArrayList<String> l = new java.util.ArrayList<>(); while (true) l.add(\"x\");",
	}[r.IntN(11)]
}

// wasmModule returns a module with a function of one int, whose body is long or nested.
func wasmModule(r *rand.Rand, name string, n int) []byte {
	n = min(n, 300_000)
	var body []byte
	each := func(part ...byte) {
		for range n {
			body = append(body, part...)
		}
	}
	switch r.IntN(6) {
	case 0: // nested if
		each(0x20, 0, 0x04, 0x40)
		each(0x0b)
	case 1: // one br_table with many targets
		body = append(body, 0x02, 0x40, 0x20, 0, 0x0e)
		body = leb(body, uint64(n))
		each(0)
		body = append(body, 0, 0x0b)
	case 2: // an endless loop
		body = append(body, 0x03, 0x40, 0x0c, 0, 0x0b)
	case 3: // many blocks in sequence
		each(0x02, 0x40, 0x0b)
	case 4: // memory.grow
		each(0x41, 0x7f, 0x40, 0, 0x1a)
	default: // arithmetic
		each(0x20, 0, 0x41, 1, 0x6a, 0x1a)
	}
	return wasmFunction(name, string(body))
}

// wasmFunction returns a module with a function of one int, which executes a body and returns its argument.
func wasmFunction(name, body string) []byte {
	code := append(append([]byte{0}, body...), 0x20, 0, 0x0b) // no locals
	module := []byte{0, 'a', 's', 'm', 1, 0, 0, 0}
	section := func(id byte, content []byte) {
		module = append(leb(append(module, id), uint64(len(content))), content...)
	}
	section(1, []byte{1, 0x60, 1, 0x7f, 1, 0x7f}) // (i32) → i32
	section(3, []byte{1, 0})
	section(5, []byte{1, 0, 1})
	section(7, append(append([]byte{1, byte(len(name))}, name...), 0, 0))
	section(10, append(leb([]byte{1}, uint64(len(code))), code...))
	return module
}

// leb appends an unsigned LEB128 number.
func leb(dst []byte, n uint64) []byte {
	for ; n >= 0x80; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	return append(dst, byte(n))
}
