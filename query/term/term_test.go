package term

import (
	"testing"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/function"
	"cqld/types"
)

// parsed returns the term in text.
func parsed(t *testing.T, text string) cql.Term {
	t.Helper()
	stmt, err := cql.Parse("INSERT INTO k.t (c) VALUES (" + text + ")")
	if err != nil {
		t.Fatal(err)
	}
	return stmt.(*cql.Insert).Values[0]
}

func typed(t *testing.T, text string) *types.Type {
	t.Helper()
	typ, err := types.ParseCQL(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

// A term without markers and volatile functions is evaluated, or fails, when it is compiled.
func TestConstantTermsAreEvaluatedWhenCompiled(t *testing.T) {
	for _, x := range []struct{ typ, text, json, err string }{
		{typ: "int", text: "1", json: "1"},
		{typ: "int", text: "1 + 2 * 3", json: "7"},
		{typ: "bigint", text: "-5", json: "-5"},
		{typ: "text", text: "'a'", json: `"a"`},
		{typ: "set<int>", text: "{3, 1, 2, 1}", json: "[1, 2, 3]"},
		{typ: "map<text, int>", text: "{'b': 2, 'a': 1}", json: `{"a": 1, "b": 2}`},
		{typ: "frozen<tuple<int, text>>", text: "(1, 'x')", json: `[1, "x"]`},
		{typ: "blob", text: "intAsBlob(1)", json: `"0x00000001"`},
		{typ: "int", text: "'a'", err: `Invalid STRING constant (a) for "c" of type int`},
		{typ: "list<int>", text: "['a']", err: "Invalid list literal for c: value 'a' is not of type int"},
		{typ: "list<int>", text: "[?]", err: "Invalid list literal for c: bind variables are not supported inside " +
			"collection literals"},
		{typ: "int", text: "nothing(1)", err: "Unknown function nothing called"},
	} {
		typ := typed(t, x.typ)
		c := &Compiler{Functions: function.New()}
		compiled, err := c.Term(parsed(t, x.text), c.Receiver("c", typ))
		if err != nil {
			if err.Error() != x.err {
				t.Errorf("%s as %s: error %q, want %q", x.text, x.typ, err, x.err)
			}
			continue
		}
		if x.err != "" {
			t.Errorf("%s as %s: no error, want %q", x.text, x.typ, x.err)
			continue
		}
		if !isConst(compiled) {
			t.Errorf("%s as %s: is a %T, want a constant", x.text, x.typ, compiled)
		}
		v, err := compiled.Eval(&Scope{})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(typ.AppendJSON(nil, v.Bytes)); got != x.json {
			t.Errorf("%s as %s: is %s, want %s", x.text, x.typ, got, x.json)
		}
	}
}

// A marker gets its type from its position, and its value, which must match the type, from the scope.
func TestMarkerTypesAreInferred(t *testing.T) {
	c := &Compiler{Functions: function.New()}
	compiled, err := c.Term(parsed(t, "(?, 'x')"), c.Receiver("c", typed(t, "frozen<tuple<int, text>>")))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Markers) != 1 || c.Markers[0].Spec.Name != "c[0]" || c.Markers[0].Spec.Type.Kind() != types.Int {
		t.Errorf("markers are %+v", c.Markers)
	}
	v, err := compiled.Eval(&Scope{Values: []wire.Value{wire.BytesValue([]byte{0, 0, 0, 9})}})
	if err != nil || string(typed(t, "frozen<tuple<int, text>>").AppendJSON(nil, v.Bytes)) != `[9, "x"]` {
		t.Errorf("value %x, error %v", v.Bytes, err)
	}
	if _, err := compiled.Eval(&Scope{Values: []wire.Value{wire.BytesValue([]byte{9})}}); err == nil {
		t.Error("one byte was accepted as an int")
	}
}
