package schema

import (
	"reflect"
	"testing"

	"cqld/types"
)

func testFunction(name string, returns *types.Type, args ...*types.Type) *CreateFunction {
	f := &Function{Keyspace: "k", Name: name, ArgTypes: args, Returns: returns, CalledOnNull: true, Language: "lua",
		Body: "return nil"}
	for i := range args {
		f.ArgNames = append(f.ArgNames, string(rune('a'+i)))
	}
	return &CreateFunction{Function: f}
}

// Functions and aggregates survive encoding, and their changes are events in an order in which they can be applied.
func TestFunctionsAreElements(t *testing.T) {
	number, text := types.Native(types.Int), types.Native(types.Text)
	udt := types.NewUDT("k", "u", []string{"a"}, []*types.Type{number}, false)
	s := mustApply(t, Initial(), createKeyspace("k"), &CreateType{Type: udt})
	before := s
	changes := []Change{testFunction("step", udt, udt, number), testFunction("final", text, udt),
		testFunction("final", number, number),
		&CreateAggregate{Aggregate: &Aggregate{Keyspace: "k", Name: "total", ArgTypes: []*types.Type{number},
			StateFunction: "step", StateType: udt,
			FinalFunction: "final"}}}
	for _, c := range changes {
		decoded, err := DecodeChange(EncodeChange(c))
		if err != nil || !reflect.DeepEqual(decoded, c) {
			t.Fatalf("%#v, want %#v (%v)", decoded, c, err)
		}
		s = mustApply(t, s, c)
	}
	decoded, err := Decode(Encode(s))
	if err != nil || decoded.Version() != s.Version() || len(Diff(s, decoded)) != 0 {
		t.Errorf("decoded: %v %v", Diff(s, decoded), err)
	}
	var created []string
	for _, e := range Diff(before, s) {
		created = append(created, e.Change+" "+e.Target+" "+e.Signature)
	}
	if want := []string{"CREATED FUNCTION final(int)", "CREATED FUNCTION final(u)", "CREATED FUNCTION step(u, int)",
		"CREATED AGGREGATE total(int)"}; !reflect.DeepEqual(created, want) {
		t.Errorf("events %v, want %v", created, want)
	}
	k := s.Keyspace("k")
	if a := k.Aggregate("total", []*types.Type{number}); !a.Returns.Equal(text) {
		t.Errorf("the aggregate returns %v", a.Returns)
	}
	for _, c := range []Change{&DropType{Keyspace: "k", Name: "u"}, &DropFunction{Keyspace: "k", Name: "step"},
		&DropFunction{Keyspace: "k", Name: "final"}} {
		if _, err := Apply(s, c); err == nil {
			t.Errorf("%#v was applied", c)
		}
	}
	// A change of the type changes the functions, whose signatures remain.
	s = mustApply(t, s, &AlterType{Keyspace: "k", Name: "u", Field: "b", FieldType: text})
	if f := s.Keyspace("k").FunctionsNamed("step")[0]; len(f.Returns.Elems()) != 2 ||
		s.Keyspace("k").StateOf(s.Keyspace("k").Aggregates()[0]) != f {
		t.Errorf("after ALTER TYPE: %v", f)
	}
	if s = mustApply(t, s, &DropKeyspace{Keyspace: "k"}); s.Keyspace("k") != nil {
		t.Error("the keyspace exists")
	}
}
