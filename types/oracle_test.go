package types

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// The files were recorded from Cassandra 5.0.9.

// recorded calls f with the tab-separated fields of each line of a file.
func recorded(t *testing.T, path string, f func(fields []string)) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		if line != "" && line[0] != '#' {
			f(strings.Split(line, "\t"))
			n++
		}
	}
	if n == 0 {
		t.Fatalf("%s is empty", path)
	}
}

// unhex decodes recorded bytes: hexadecimal, "-" for none, or "null".
func unhex(t *testing.T, s string) []byte {
	t.Helper()
	switch s {
	case "-":
		return []byte{}
	case "null":
		return nil
	}
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustClass(t *testing.T, class string) *Type {
	t.Helper()
	typ, err := ParseClass(class)
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

func TestOrderIsCassandras(t *testing.T) {
	var typ *Type
	var last []byte
	recorded(t, "testdata/order.txt", func(f []string) {
		word, rest, _ := strings.Cut(f[0], " ")
		if word == "T" {
			typ, last = mustClass(t, rest), nil
			return
		}
		b := unhex(t, rest)
		if last != nil {
			want := -1
			if word == "=" {
				want = 0
			}
			if got := sign(typ.Compare(last, b)); got != want {
				t.Errorf("%s: Compare(%x, %x) = %d, want %d", typ, last, b, got, want)
			}
			if got := bytes.Compare(typ.AppendOrdered(nil, last, false),
				typ.AppendOrdered(nil, b, false)); got != want {
				t.Errorf("%s: keys of %x and %x order %d, want %d", typ, last, b, got, want)
			}
			if got := bytes.Compare(typ.AppendOrdered(nil, b, true), typ.AppendOrdered(nil, last, true)); got != want {
				t.Errorf("%s: descending keys of %x and %x order %d, want %d", typ, b, last, got, want)
			}
		}
		last = b
	})
}

func TestValidateAgreesWithCassandra(t *testing.T) {
	recorded(t, "testdata/validate.txt", func(f []string) {
		typ := mustClass(t, f[0])
		got := "ok"
		if err := typ.Validate(unhex(t, f[1])); err != nil {
			got = err.Error()
		}
		if got != f[2] {
			t.Errorf("%s %s: %s, want %s", typ, f[1], got, f[2])
		}
	})
}

func TestClassesAndNamesAreCassandras(t *testing.T) {
	recorded(t, "testdata/class.txt", func(f []string) {
		typ := mustClass(t, f[0])
		if typ.String() != f[1] {
			t.Errorf("%s: CQL %s, want %s", f[0], typ, f[1])
		}
		if strings.HasPrefix(f[0], "ReversedType") || f[0] == "DateType" || f[0] == "LegacyTimeUUIDType" {
			return // not part of a type here
		}
		if got := typ.MarshalClass(); got != f[2] {
			t.Errorf("%s: class %s, want %s", f[0], got, f[2])
		}
		if back := mustClass(t, typ.MarshalClass()); !back.Equal(typ) {
			t.Errorf("%s: read back as %s", typ.MarshalClass(), back)
		}
		find := func(_, name string) (*Type, bool) {
			u := typ
			for u.kind != UDT && len(u.elems) > 0 {
				u = u.elems[0]
			}
			return NewUDT("ks", name, u.fields, u.elems, false), u.kind == UDT && u.name == name
		}
		back, err := ParseCQL(typ.String(), find)
		if err != nil || !back.Equal(typ) {
			t.Errorf("%s: read back as %s, %v", typ, back, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"map<text, frozen<list<int>>>", "vector<float, 3>",
		"'org.apache.cassandra.db.marshal.EmptyType'",
		"frozen<\"A b\">", "tuple<int, ks.u>", "UserType(ks,61,66:Int32Type)", "FrozenType(MapType(UTF8Type,LongType))",
		"VectorType(FloatType , 3)", "DynamicCompositeType(a=>Int32Type)"} {
		f.Add(seed)
	}
	find := func(_, name string) (*Type, bool) {
		return NewUDT("ks", name, []string{"f"}, []*Type{Native(Int)}, false), true
	}
	f.Fuzz(func(t *testing.T, text string) {
		if typ, err := ParseCQL(text, find); err == nil {
			if back, err := ParseCQL(typ.String(), find); err != nil || back.String() != typ.String() {
				t.Fatalf("%q is %s, which reads as %v, %v", text, typ, back, err)
			}
		}
		if typ, err := ParseClass(text); err == nil {
			if _, err := ParseClass(typ.MarshalClass()); err != nil {
				t.Fatalf("%q is class %s, which does not read: %v", text, typ.MarshalClass(), err)
			}
		}
	})
}

func TestParseRefusesInvalidTypes(t *testing.T) {
	for _, text := range []string{"", "int4", "list<int", "list<int>>", "map<int>", "frozen<int>", "vector<int>",
		"vector<int, 0>",
		"tuple<>", "list<>", "\"int", "'x", strings.Repeat("list<", 500) + "int" + strings.Repeat(">", 500)} {
		if typ, err := ParseCQL(text, nil); err == nil {
			t.Errorf("ParseCQL(%q) = %s", text, typ)
		}
	}
	for _, text := range []string{"", "ListType", "ListType(", "ListType(Int32Type", "MapType(Int32Type)",
		"VectorType(Int32Type)",
		"UserType(ks,zz)", "Int32Type)", "Foo(", strings.Repeat("ListType(", 500)} {
		if typ, err := ParseClass(text); err == nil {
			t.Errorf("ParseClass(%q) = %s", text, typ)
		}
	}
}
