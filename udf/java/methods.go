package java

import (
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"

	"cqld/udf/value"
)

// The methods of objects that a body can call:
//
//	String       length, charAt, substring, indexOf, lastIndexOf, contains, startsWith, endsWith, replace, concat,
//	             trim, toUpperCase, toLowerCase, equals, equalsIgnoreCase, compareTo, isEmpty, hashCode, toString
//	List         get, set, add, contains, size, isEmpty
//	Set          add, remove, contains, size, isEmpty
//	Map          get, getOrDefault, put, putIfAbsent, remove, containsKey, keySet, values, size, isEmpty
//
// Boxes are in postfix.go, BigInteger and BigDecimal in static.go, tuples in tuple.go. A function that compiles methods
// returns nil for a name or a number of arguments that it does not know, and the caller refuses the call.

// units returns a string in UTF-16, like a Java String. Lengths and positions in Java count these units. Each call
// copies the string, which the meter counts: Go strings are UTF-8 and have no index by units.
func units(fr *frame, s string) []uint16 {
	fr.m.Alloc(int64(3 * len(s)))
	return utf16.Encode([]rune(s))
}

// ofString compiles the methods of String. Positions and lengths are in units of UTF-16. Methods with locales or
// regular expressions are not in the subset. m.args are converted by each method, since their types decide between
// overloads.
func (m *call) ofString() *expr {
	s, b, i := primitive(kindString), primitive(kindBoolean), primitive(kindInt)
	// object fails for null, so the value is a string.
	on := func(fr *frame) string { v, _ := m.object(fr).(string); return v }
	switch {
	case m.is("length", 0):
		return &expr{t: i, eval: func(fr *frame) value.Value { return int64(len(units(fr, on(fr)))) }}
	// The formula is part of the documentation of String, so bodies may rely on it.
	case m.is("hashCode", 0):
		return &expr{t: i, eval: func(fr *frame) value.Value {
			var h int32
			for _, u := range units(fr, on(fr)) {
				h = 31*h + int32(u)
				// As in Java, it overflows.
			}
			return int64(h)
		}}
	case m.is("isEmpty", 0):
		return &expr{t: b, eval: func(fr *frame) value.Value { return on(fr) == "" }}
	case m.is("toString", 0):
		return &expr{t: s, eval: func(fr *frame) value.Value { return on(fr) }}
	// Separate functions compile the remaining methods.
	case m.is("substring", 1), m.is("substring", 2):
		return m.substring(on)
	// Before the cases that convert the argument: equals takes any object.
	case m.is("equals", 1):
		return m.equals()
	}
	// The remaining methods without arguments map the string to another one.
	if len(m.args) == 0 {
		return m.mapped(on)
	}
	// Before the loop below: its argument is a number.
	if m.is("charAt", 1) {
		return m.charAt(on)
	}
	for i, a := range m.args { // of indexOf and replace
		if a.t.kind == kindChar && (m.name == "indexOf" || m.name == "lastIndexOf" || m.name == "replace") {
			m.args[i] = textOf(a)
		}
	}
	// A character argument has become a string above, so both forms are this one.
	if len(m.args) == 2 && m.name == "replace" {
		from, to := m.argument(0), m.argument(1)
		return &expr{t: s, eval: func(fr *frame) value.Value {
			v, old, by := on(fr), from(fr), to(fr)
			// The result may be many times longer, so count it before allocating it.
			fr.m.Alloc(int64(len(v)) + int64(strings.Count(v, old))*int64(len(by)))
			return strings.ReplaceAll(v, old, by)
		}}
	}
	if len(m.args) != 1 {
		return nil
	}
	// Exactly one argument, and all methods left take a string.
	return m.withString(on)
}

// argument returns a string argument, which must not be null. The result evaluates the argument each time that it is
// called.
func (m *call) argument(i int) func(fr *frame) string {
	// An argument of another type is an error of the compilation.
	in := m.arg(i, primitive(kindString))
	return func(fr *frame) string {
		v, ok := in(fr).(string)
		if !ok {
			value.Failf("java.lang.NullPointerException")
		}
		return v
	}
}

// equalFold compares as String.equalsIgnoreCase does: characters are equal if their forms in upper case are, or the
// forms of these in lower case. Unlike in strings.EqualFold, the dotless ı equals i.
func equalFold(s, t string) bool {
	for s != "" && t != "" {
		a, n := utf8.DecodeRuneInString(s)
		b, m := utf8.DecodeRuneInString(t)
		s, t = s[n:], t[m:]
		if a == b {
			continue
		}
		a, b = unicode.ToUpper(a), unicode.ToUpper(b)
		if a != b && unicode.ToLower(a) != unicode.ToLower(b) {
			return false
		}
	}
	return s == t
}

// withString compiles the methods of String with one argument that is a string. on returns the string of the object.
func (m *call) withString(on func(fr *frame) string) *expr {
	if m.name == "equalsIgnoreCase" {
		// The only one that accepts null.
		arg := m.arg(0, primitive(kindString))
		return &expr{t: primitive(kindBoolean), eval: func(fr *frame) value.Value {
			s := on(fr)
			t, ok := arg(fr).(string)
			fr.m.Work(int64(len(s)))
			return ok && equalFold(s, t)
		}}
	}
	tests := map[string]func(s, t string) bool{"contains": strings.Contains, "startsWith": strings.HasPrefix,
		"endsWith": strings.HasSuffix}
	if test := tests[m.name]; test != nil {
		arg := m.argument(0)
		return &expr{t: primitive(kindBoolean), eval: func(fr *frame) value.Value {
			s := on(fr)
			// Go compares several bytes at a time, so a byte is less than a step.
			fr.m.Work(int64(len(s)) / 8)
			return test(s, arg(fr))
		}}
	}
	switch m.name {
	// Unlike +, it fails for null.
	case "concat":
		arg := m.argument(0)
		return &expr{t: primitive(kindString), eval: func(fr *frame) value.Value {
			// The object first: a null object fails before a null argument.
			s, t := on(fr), arg(fr)
			fr.m.Alloc(int64(len(s) + len(t)))
			return s + t
		}}
	case "indexOf", "lastIndexOf":
		arg := m.argument(0)
		// Bytes are searched, not units. In valid UTF-8 both find the same places. Two UTF-8 sequences never overlap in
		// part.
		index := strings.Index
		if m.name == "lastIndexOf" {
			index = strings.LastIndex
		}
		return &expr{t: primitive(kindInt), eval: func(fr *frame) value.Value {
			s := on(fr)
			fr.m.Work(int64(len(s)) / 8)
			at := index(s, arg(fr))
			if at < 0 {
				return int64(-1)
			}
			// The position in bytes becomes one in units.
			return int64(len(units(fr, s[:at])))
		}}
	case "compareTo":
		arg := m.argument(0)
		return &expr{t: primitive(kindInt), eval: func(fr *frame) value.Value {
			s, t := units(fr, on(fr)), units(fr, arg(fr))
			for i := range min(len(s), len(t)) {
				// Compare UTF-16 units, as Java does, not characters.
				if s[i] != t[i] {
					return int64(s[i]) - int64(t[i])
				}
			}
			// One is a prefix of the other; the shorter one is less.
			return int64(len(s) - len(t))
		}}
	}
	return nil
}

// mapped compiles the methods of String without arguments that return a string. None depends on the locale of the
// server.
func (m *call) mapped(on func(fr *frame) string) *expr {
	mappings := map[string]func(string) string{
		"toUpperCase": cases.Upper(language.Und).String, // ß has two capital letters
		"toLowerCase": cases.Lower(language.Und).String, // a final sigma has a special form
		"trim":        func(s string) string { return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' }) },
	}
	// The map is made for each call of the compiler, not of the method.
	f := mappings[m.name]
	if f == nil {
		return nil
	}
	return &expr{t: primitive(kindString), eval: func(fr *frame) value.Value {
		s := on(fr)
		// Another case may take more bytes than the original.
		fr.m.Alloc(int64(2 * len(s)))
		return f(s)
	}}
}

// charAt compiles the method that returns a unit of UTF-16. The result is a char, which is formatted as a character
// and computes as a number.
func (m *call) charAt(on func(fr *frame) string) *expr {
	at := m.arg(0, primitive(kindInt))
	return &expr{t: primitive(kindChar), eval: func(fr *frame) value.Value {
		u := units(fr, on(fr))
		i, _ := at(fr).(int64)
		// The unit may be half of a surrogate pair, as in Java.
		if i < 0 || i >= int64(len(u)) {
			value.Failf("java.lang.StringIndexOutOfBoundsException: index %d, length %d", i, len(u))
		}
		return int64(u[i])
	}}
}

// substring compiles substring(begin) and substring(begin, end). The end is exclusive, as in Java. Units that are cut
// from a pair cannot be kept: Go strings are UTF-8.
func (m *call) substring(on func(fr *frame) string) *expr {
	from := m.arg(0, primitive(kindInt))
	// Without a second argument the end is the length of the string.
	to := func(*frame) value.Value { return nil }
	if len(m.args) == 2 {
		to = m.arg(1, primitive(kindInt))
	}
	return &expr{t: primitive(kindString), eval: func(fr *frame) value.Value {
		u := units(fr, on(fr))
		begin, _ := from(fr).(int64)
		end := int64(len(u))
		// nil is the missing argument: an int is never nil.
		if n, ok := to(fr).(int64); ok {
			end = n
		}
		if begin < 0 || begin > end || end > int64(len(u)) {
			value.Failf("java.lang.StringIndexOutOfBoundsException: begin %d, end %d, length %d", begin, end, len(u))
		}
		// Half of a pair, which Java would keep, becomes the replacement character.
		return string(utf16.Decode(u[begin:end]))
	}}
}

// elem returns the i-th type parameter of the object. A raw type has none, so the body is rejected, because values of
// unknown type cannot be checked. It is the type of elements for a list or set, and of keys (0) or values (1) for a
// map.
func (m *call) elem(i int) *jtype {
	if i >= len(m.on.t.elems) {
		unsupported(m.line, m.on.t.String()+" without the types of its elements")
	}
	return m.on.t.elems[i]
}

// table returns the object as a table: the form of all collections and tuples (package value).
func (m *call) table(fr *frame) *value.Table {
	t, _ := m.object(fr).(*value.Table)
	return t
}

// present fails for null, which CQL collections do not contain. A HashMap of Java would accept null.
func present(v value.Value) value.Value {
	if v == nil {
		value.Failf("java.lang.NullPointerException: Collection elements cannot be null")
	}
	return v
}

// sized compiles size() and isEmpty(). All collections have them.
func (m *call) sized() *expr {
	switch {
	case m.is("size", 0):
		return &expr{t: primitive(kindInt), eval: func(fr *frame) value.Value { return int64(m.table(fr).Count()) }}
	case m.is("isEmpty", 0):
		return &expr{t: primitive(kindBoolean), eval: func(fr *frame) value.Value { return m.table(fr).Count() == 0 }}
	}
	return nil
}

// ofList compiles the methods of List. A body may change list arguments, because each call decodes its own copies.
func (m *call) ofList() *expr {
	// The index is checked against the table at the time of the call, not when it is compiled.
	at := func(i int) func(fr *frame, t *value.Table) int64 {
		in := m.arg(i, primitive(kindInt))
		return func(fr *frame, t *value.Table) int64 {
			n, _ := in(fr).(int64)
			if n < 0 || n >= int64(t.Len()) {
				value.Failf("java.lang.IndexOutOfBoundsException: Index %d out of bounds for length %d", n, t.Len())
			}
			// Lists are tables with keys from 1, as in Lua.
			return n + 1
		}
	}
	switch {
	case m.is("get", 1):
		index := at(0)
		return &expr{t: m.elem(0), eval: func(fr *frame) value.Value {
			t := m.table(fr)
			return t.Get(fr.m,
				index(fr, t))
		}}
	case m.is("add", 1):
		v := m.arg(0, m.elem(0))
		return &expr{t: primitive(kindBoolean), eval: func(fr *frame) value.Value {
			// The meter counts the element, so an endless loop of add ends.
			m.table(fr).Append(fr.m, present(v(fr)))
			return true
		}}
	case m.is("set", 2):
		// In the order of the arguments.
		index, v := at(0), m.arg(1, m.elem(0))
		return &expr{t: m.elem(0), eval: func(fr *frame) value.Value {
			t := m.table(fr)
			n := index(fr, t)
			// The result of set is the element that was there before.
			old := t.Get(fr.m, n)
			t.Set(fr.m, n, present(v(fr)))
			return old
		}}
	case m.is("contains", 1):
		v := m.key(0, m.elem(0))
		return &expr{t: primitive(kindBoolean), eval: func(fr *frame) value.Value {
			t, wanted := m.table(fr), v(fr)
			// One step for each element, as a loop of the body would count.
			for _, e := range t.Values() {
				fr.m.Step()
				if value.Equal(fr.m, e, wanted) {
					return true
				}
			}
			return false
		}}
	}
	return m.sized()
}

// ofSet compiles the methods of Set, and of the collections of a map. add and remove return whether the set has
// changed. A set is a table whose keys are the elements, with the value true.
func (m *call) ofSet() *expr {
	// The collections of a map only support size and isEmpty; a loop reads their elements.
	if m.on.t.kind == kindSet {
		switch {
		case m.is("add", 1):
			// add takes an element, while contains and remove take any object.
			v := m.arg(0, m.elem(0))
			return &expr{t: primitive(kindBoolean), eval: func(fr *frame) value.Value {
				t, e := m.table(fr), present(v(fr))
				had := t.Get(fr.m, e) != nil
				// A set is a table whose keys are the elements.
				t.Set(fr.m, e, true)
				return !had
			}}
		case m.is("remove", 1), m.is("contains", 1):
			v := m.key(0, m.elem(0))
			return &expr{t: primitive(kindBoolean), eval: func(fr *frame) value.Value {
				t, e := m.table(fr), v(fr)
				// A key that is null, or of another class, is in no set.
				had := e != nil && t.Get(fr.m, e) != nil
				if had && m.name == "remove" {
					t.Set(fr.m, e, nil)
				}
				return had
			}}
		}
	}
	return m.sized()
}

// ofMap compiles the methods of Map. Keys are compared by value: numbers and strings, not objects. A map keeps the
// order of insertion.
func (m *call) ofMap() *expr {
	switch {
	case m.is("get", 1), m.is("remove", 1):
		k := m.key(0, m.elem(0))
		return &expr{t: m.elem(1), eval: func(fr *frame) value.Value {
			t, key := m.table(fr), k(fr)
			if key == nil {
				return nil
			}
			v := t.Get(fr.m, key)
			// Removing an absent key changes nothing.
			if m.name == "remove" && v != nil {
				t.Set(fr.m, key, nil)
			}
			return v
		}}
	case m.is("containsKey", 1):
		k := m.key(0, m.elem(0))
		return &expr{t: primitive(kindBoolean), eval: func(fr *frame) value.Value {
			t, key := m.table(fr), k(fr)
			return key != nil && t.Get(fr.m, key) != nil
		}}
	// A map has no null values, so a missing key is the only case of the default.
	case m.is("getOrDefault", 2):
		k, v := m.key(0, m.elem(0)), m.arg(1, m.elem(1))
		return &expr{t: m.elem(1), eval: func(fr *frame) value.Value {
			// The default is evaluated also if the key is present, as every argument is.
			t, key, absent := m.table(fr), k(fr), v(fr)
			if key == nil {
				return absent
			}
			if found := t.Get(fr.m, key); found != nil {
				return found
			}
			return absent
		}}
	case m.is("put", 2), m.is("putIfAbsent", 2):
		k, v := m.arg(0, m.elem(0)), m.arg(1, m.elem(1))
		return &expr{t: m.elem(1), eval: func(fr *frame) value.Value {
			// Neither may be null: a CQL map has no nulls.
			t, key, next := m.table(fr), present(k(fr)), present(v(fr))
			// The result: the previous value, or null.
			old := t.Get(fr.m, key)
			if old == nil || m.name == "put" {
				t.Set(fr.m, key, next)
			}
			return old
		}}
	// For loops over a map.
	case m.is("keySet", 0), m.is("values", 0):
		// The type parameter that is the type of the elements: 0 of keys, 1 of values.
		at := 0
		if m.name == "values" {
			at = 1
		}
		return &expr{t: &jtype{kind: kindCollection, elems: []*jtype{m.elem(at)}}, eval: func(fr *frame) value.Value {
			// A copy, unlike in Java: changes of the map are not visible in it, and it cannot be modified. The elements
			// are shared, as in Java.
			out := value.NewTable(fr.m)
			t := m.table(fr)
			// In the order of insertion.
			for k, v, next := t.Next(fr.m, 0); next >= 0; k, v, next = t.Next(fr.m, next) {
				if at == 1 {
					k = v
				}
				out.Append(fr.m, k)
			}
			return out
		}}
	}
	return m.sized()
}
