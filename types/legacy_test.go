package types

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"cqld/internal/wire"
)

// parsedClass returns the type of a class.
func parsedClass(t *testing.T, class string) *Type {
	t.Helper()
	typ, err := ParseClass(class)
	if err != nil || typ.Unknown() {
		t.Fatalf("%s: %v", class, err)
	}
	return typ
}

// TestLegacyClassesRoundTrip checks that the class of a type is parsed to the same type.
func TestLegacyClassesRoundTrip(t *testing.T) {
	for _, class := range []string{"LexicalUUIDType", "EmptyType()", "CompositeType(Int32Type, UTF8Type)",
		"DynamicCompositeType", "DynamicCompositeType(b=>UTF8Type,a=>Int32Type)",
		"CompositeType(ReversedType(Int32Type),CompositeType(LexicalUUIDType))", "ListType(CompositeType(Int32Type))"} {
		typ := parsedClass(t, class)
		for _, text := range []string{typ.MarshalClass(), typ.DeclaredClass()} {
			if again, err := ParseDeclaredClass(text); err != nil || !again.Equal(typ) {
				t.Errorf("%s: %s is parsed to %v, %v", class, text, again, err)
			}
		}
		if again, err := ParseCQL(typ.String(), nil); typ.Kind() == Custom && !typ.IsEmpty() &&
			(err != nil || !again.Equal(typ)) {
			t.Errorf("%s: %s: %v %v", class, typ, again, err)
		}
	}
	for _, class := range []string{"CompositeType", "CompositeType()", "CompositeType(NoSuch)",
		"DynamicCompositeType(ab=>Int32Type)", "CompositeType(Int32Type", "NoSuch"} {
		if typ, err := ParseClass(class); err == nil && !typ.Unknown() {
			t.Errorf("%s is accepted as %s", class, typ)
		}
	}
}

// randomComposite returns a value of type t, or arbitrary bytes.
func randomComposite(r *rand.Rand, t *Type) []byte {
	if r.IntN(8) == 0 {
		return randomBytes(r, 0, 12)
	}
	b := []byte{}
	for i := range r.IntN(4) {
		var of component
		switch {
		case legacyKindOf(t) == lexicalUUID:
			return randomBytes(r, 16, 16)
		case legacyKindOf(t) == composite:
			if i >= len(t.legacy.components) {
				return b
			}
			of = t.legacy.components[i]
		default:
			name := "ab"[r.IntN(2)]
			of = t.legacy.aliases[name]
			if r.IntN(2) == 0 {
				b = wire.AppendUint16(b, aliasFlag|uint16(name))
			} else {
				b = wire.AppendString(b, of.class())
			}
		}
		b = append(appendComponent(b, randomWire(r, of.t)), []byte{}...)
		b[len(b)-1] = edgeBytes[r.IntN(len(edgeBytes))]
	}
	return b
}

// TestLegacyOrderedForms checks that the ordered form sorts like Compare, decodes to the value, and can be skipped,
// also in descending order.
func TestLegacyOrderedForms(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	for _, class := range []string{"LexicalUUIDType", "CompositeType(Int32Type,UTF8Type)",
		"CompositeType(ReversedType(Int32Type),ReversedType(BytesType),LongType)",
		"DynamicCompositeType(a=>Int32Type,b=>ReversedType(UTF8Type))"} {
		typ := parsedClass(t, class)
		for range 3000 {
			a, b := randomComposite(r, typ), randomComposite(r, typ)
			for _, desc := range []bool{false, true} {
				formA, formB := typ.AppendOrdered(nil, a, desc), typ.AppendOrdered(nil, b, desc)
				want := typ.Compare(a, b)
				if desc {
					want = -want
				}
				if bytes.Compare(formA, formB) != want {
					t.Fatalf("%s: %x and %x", class, a, b)
				}
				if want != 0 && (bytes.HasPrefix(formA, formB) || bytes.HasPrefix(formB, formA)) {
					t.Fatalf("%s: the form of one of %x and %x begins with the other's", class, a, b)
				}
				got, rest, err := typ.ConsumeOrdered(nil, append(bytes.Clone(formA), 7), desc)
				if err != nil || len(rest) != 1 || !bytes.Equal(got, a) {
					t.Fatalf("%s: %x is decoded to %x, %x, %v", class, a, got, rest, err)
				}
				if rest, err := typ.SkipOrdered(append(bytes.Clone(formA), 7), desc); err != nil || len(rest) != 1 {
					t.Fatalf("%s: %x is skipped to %x, %v", class, a, rest, err)
				}
			}
		}
	}
}

// FuzzLegacyOrdered decodes arbitrary ordered forms, and classes of dynamic composites from arbitrary values.
func FuzzLegacyOrdered(f *testing.F) {
	typ, err := ParseClass("DynamicCompositeType(a=>Int32Type,b=>CompositeType(UTF8Type,Int32Type))")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("\x80a\x00\x04\x00\x00\x00\x01\x00"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _, _ = typ.ConsumeOrdered(nil, b, false)
		_, _ = typ.SkipOrdered(b, true)
		_ = typ.AppendOrdered(nil, b, false)
	})
}

// TestLongComponentsAreRefused checks components whose length does not fit into two bytes, with Cassandra's message.
func TestLongComponentsAreRefused(t *testing.T) {
	for class, field := range map[string]string{"CompositeType(Int32Type,UTF8Type)": "1:",
		"DynamicCompositeType(a=>UTF8Type)": "a@", "DynamicCompositeType": "UTF8Type@"} {
		typ := parsedClass(t, class)
		for size, message := range map[int]string{65535: "", 65536: "Length 65536 > max length 65535",
			70000: "Length 70000 > max length 65535"} {
			text := field + strings.Repeat("x", size)
			b, err := typ.FromText(text)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != message {
				t.Errorf("%s with %d bytes: %q", class, size, got)
			}
			json, err := typ.FromJSON([]byte(`"`+text+`"`), nil)
			if (err == nil) != (message == "") || !bytes.Equal(json, b) {
				t.Errorf("%s with %d bytes in JSON: %v", class, size, err)
			}
			if err != nil {
				continue
			}
			key := typ.AppendOrdered(nil, b, false)
			if back, _, err := typ.ConsumeOrdered(nil, key, false); err != nil || !bytes.Equal(back, b) {
				t.Errorf("%s with %d bytes: the ordered form is decoded as %d bytes, %v", class, size, len(back), err)
			}
		}
	}
}
