package types

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func typesWithParts() []*Type {
	return slices.DeleteFunc(orderedTypes(), func(t *Type) bool { return t.Kind() < List })
}

func TestValuesAreBuiltOfTheirParts(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for _, typ := range typesWithParts() {
		for range 500 {
			want := typ.Normalize(randomWire(r, typ))
			if err := typ.Validate(want); err != nil {
				t.Fatalf("%s: normal form %x: %v", typ, want, err)
			}
			if again := typ.Normalize(want); !bytes.Equal(again, want) {
				t.Fatalf("%s: %x normalizes again to %x", typ, want, again)
			}
			var parts [][]byte
			p := typ.Parts(want)
			for p.Next() {
				parts = append(parts, p.Bytes())
			}
			if p.Err() != nil {
				t.Fatal(p.Err())
			}
			if typ.Kind() == Set {
				r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
				parts = append(parts, parts...)
			}
			got, err := typ.AppendParts(nil, parts)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s: parts of %x make %x, %v", typ, want, got, err)
			}
		}
	}
}

func TestLastOfEqualMapKeysIsKept(t *testing.T) {
	typ := NewMap(Native(Text), Native(Int), true)
	one, two := []byte{0, 0, 0, 1}, []byte{0, 0, 0, 2}
	got, err := typ.AppendParts(nil, [][]byte{[]byte("b"), one, []byte("a"), one, []byte("b"), two})
	want := "{'a': 1, 'b': 2}"
	if err != nil || string(typ.AppendLiteral(nil, got)) != want {
		t.Errorf("%s, %v, want %s", typ.AppendLiteral(nil, got), err, want)
	}
	if v, ok := typ.Lookup(got, []byte("b")); !ok || !bytes.Equal(v, two) {
		t.Errorf("Lookup(b) = %x, %t", v, ok)
	}
	if _, ok := typ.Lookup(got, []byte("c")); ok {
		t.Error("Lookup(c) found something")
	}
	if !typ.Contains(got, two) || typ.Contains(got, []byte("a")) {
		t.Error("Contains looks at values")
	}
	if typ.Len(got) != 2 {
		t.Errorf("Len = %d", typ.Len(got))
	}
}

func TestPartsThatDoNotFitAreRefused(t *testing.T) {
	null := [][]byte{nil}
	for _, tc := range []struct {
		typ   *Type
		parts [][]byte
	}{
		{NewList(Native(Int), true), null},
		{NewSet(Native(Int), true), null},
		{NewMap(Native(Int), Native(Int), true), [][]byte{{0, 0, 0, 1}}},
		{NewMap(Native(Int), Native(Int), true), [][]byte{{0, 0, 0, 1}, nil}},
		{NewTuple(Native(Int)), [][]byte{nil, nil}},
		{NewVector(Native(Text), 1), null},
		{NewVector(Native(Int), 2), [][]byte{{0, 0, 0, 1}}},
		{NewVector(Native(Int), 1), [][]byte{{0, 1}}},
	} {
		if got, err := tc.typ.AppendParts(nil, tc.parts); err == nil {
			t.Errorf("%s of %x is %x", tc.typ, tc.parts, got)
		}
	}
}

func TestFieldsAndElementsAreFound(t *testing.T) {
	typ := NewUDT("ks", "u", []string{"a", "b", "c"}, []*Type{Native(Int), Native(Text), Native(Int)}, true)
	v, err := typ.AppendParts(nil, [][]byte{nil, []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	if b, ok := typ.At(v, typ.FieldIndex("b")); !ok || string(b) != "x" {
		t.Errorf("b = %q, %t", b, ok)
	}
	for _, name := range []string{"a", "c"} {
		if b, ok := typ.At(v, typ.FieldIndex(name)); !ok || b != nil {
			t.Errorf("%s = %q, %t", name, b, ok)
		}
	}
	if _, ok := typ.At(v, 3); ok || typ.FieldIndex("d") != -1 {
		t.Error("there is no fourth field")
	}
	list := NewList(Native(Text), false)
	v, _ = list.AppendParts(nil, [][]byte{[]byte("x")})
	if _, ok := list.At(v, 1); ok {
		t.Error("there is no second element")
	}
}

// TestFieldsOfLargeTypesAreFound decodes JSON with all fields of a type, whose time is in proportion to their number:
// the largest type would take seconds otherwise.
func TestFieldsOfLargeTypesAreFound(t *testing.T) {
	const n = 9999
	names, elems := make([]string, n), make([]*Type, n)
	text := []byte("{")
	for i := range names {
		// The common part makes each comparison of names long.
		names[i], elems[i] = strings.Repeat("f", 40)+strconv.Itoa(i), Native(Int)
		text = fmt.Appendf(text, "%q:%d,", names[i], i)
	}
	text[len(text)-1] = '}'
	typ := NewUDT("ks", "u", names, elems, false)
	for _, u := range []*Type{typ, typ.Freeze()} {
		for i, name := range names {
			if at := u.FieldIndex(name); at != i {
				t.Fatalf("%s has the index %d", name, at)
			}
		}
		if u.FieldIndex("g") != -1 {
			t.Error("there is no such field")
		}
	}
	if twice := NewUDT("ks", "u", append([]string{names[7]}, names[:20]...), elems[:21], true); twice.FieldIndex(
		names[7]) != 0 {
		t.Error("the first of two equal names counts")
	}
	v, err := typ.FromJSON(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := typ.At(v, n-1); int(be32(b)) != n-1 {
		t.Errorf("the last field is %x", b)
	}
	if typ.fieldAt == nil {
		t.Error("the fields of a large type have no index")
	}
}

func TestPartsDoNotAllocate(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	for _, typ := range typesWithParts() {
		v := typ.Normalize(randomWire(r, typ))
		if n := testing.AllocsPerRun(50, func() {
			for p := typ.Parts(v); p.Next(); {
				_ = p.Bytes()
			}
			typ.Normalize(v)
			_ = typ.Compare(v, v)
			_ = typ.Validate(v)
		}); n != 0 {
			t.Errorf("%s: %v allocations", typ, n)
		}
	}
}

// FuzzWire passes unvalidated bytes to all functions, which must not panic.
func FuzzWire(f *testing.F) {
	r := rand.New(rand.NewPCG(25, 26))
	all := orderedTypes()
	all = append(all, Native(Duration), Native(Counter), NewCustom("x"))
	for i, typ := range all {
		f.Add(uint8(i), randomWire(r, typ))
		f.Add(uint8(i), randomBytes(r, 0, 20))
	}
	f.Fuzz(func(t *testing.T, i uint8, b []byte) {
		typ := all[int(i)%len(all)]
		valid := typ.Validate(b) == nil
		typ.AppendLiteral(nil, b)
		typ.AppendText(nil, b)
		typ.AppendJSON(nil, b)
		if n := typ.Normalize(b); valid && typ.Validate(n) != nil {
			t.Fatalf("%s: %x normalizes to the invalid %x", typ, b, n)
		}
		if len(typ.elems) > 0 {
			typ.Lookup(b, b)
			typ.Contains(b, b)
			typ.At(b, 1)
		}
	})
}
