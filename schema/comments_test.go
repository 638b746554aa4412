package schema

import (
	"testing"

	"cqld/ring"
	"cqld/types"
)

// TestCommentsFollowTypes sets, moves and removes comments on a keyspace, a type and its fields, through the encoding
// of the schema.
func TestCommentsFollowTypes(t *testing.T) {
	s := mustApply(t, Initial(), &CreateKeyspace{Keyspace: "k",
		Replication: ring.Replication{Class: ring.Simple, Factor: 1}})
	s = mustApply(t, s, &CreateType{Type: types.NewUDT("k", "ty", []string{"a", "b"},
		[]*types.Type{types.Native(types.Int), types.Native(types.Text)}, false)})
	for _, c := range []Comment{{Text: "keyspace"}, {Type: "ty", Text: "type"},
		{Type: "ty", Field: "a", Text: "field"}} {
		before := s
		s = applyEncoded(t, s, &AlterKeyspace{Keyspace: "k", Comment: &c})
		if got := s.Keyspace("k").Comment(c.Type, c.Field); got != c.Text {
			t.Errorf("comment %q, want %q", got, c.Text)
		}
		if events := Diff(before, s); len(events) != 1 || events[0].Change != Updated ||
			(events[0].Target == TargetType) != (c.Type != "") {
			t.Errorf("events of %+v: %+v", c, events)
		}
	}
	s = applyEncoded(t, s, &AlterType{Keyspace: "k", Name: "ty", Rename: []Rename{{From: "a", To: "x"}}})
	k := s.Keyspace("k")
	if k.Comment("ty", "x") != "field" || k.Comment("ty", "a") != "" || k.Comment("ty", "") != "type" {
		t.Errorf("comments after a rename: %v", k.comments)
	}
	s = applyEncoded(t, s, &DropType{Keyspace: "k", Name: "ty"})
	if k := s.Keyspace("k"); len(k.comments) != 1 || k.Comment("", "") != "keyspace" {
		t.Errorf("comments after DROP TYPE: %v", k.comments)
	}
	s = applyEncoded(t, s, &AlterKeyspace{Keyspace: "k", Comment: &Comment{}})
	if k := s.Keyspace("k"); len(k.comments) != 0 {
		t.Errorf("comments after IS NULL: %v", k.comments)
	}
	if _, err := Apply(s, &AlterKeyspace{Keyspace: "k", Comment: &Comment{Type: "ty", Text: "x"}}); err == nil {
		t.Error("a comment on a type that does not exist")
	}
}

// TestLabelsFollowTypes does the same with security labels, which are independent of comments.
func TestLabelsFollowTypes(t *testing.T) {
	s := mustApply(t, Initial(), &CreateKeyspace{Keyspace: "k",
		Replication: ring.Replication{Class: ring.Simple, Factor: 1}})
	s = mustApply(t, s, &CreateType{Type: types.NewUDT("k", "ty", []string{"a"},
		[]*types.Type{types.Native(types.Int)}, false)})
	s = applyEncoded(t, s, &AlterKeyspace{Keyspace: "k", Comment: &Comment{Type: "ty", Field: "a", Text: "comment"}})
	for _, c := range []Comment{{Text: "keyspace", Label: true}, {Type: "ty", Field: "a", Text: "field", Label: true}} {
		before := s
		s = applyEncoded(t, s, &AlterKeyspace{Keyspace: "k", Comment: &c})
		if got := s.Keyspace("k").Label(c.Type, c.Field); got != c.Text {
			t.Errorf("label %q, want %q", got, c.Text)
		}
		if events := Diff(before, s); len(events) != 1 || events[0].Change != Updated ||
			(events[0].Target == TargetType) != (c.Type != "") {
			t.Errorf("events of %+v: %+v", c, events)
		}
	}
	s = applyEncoded(t, s, &AlterType{Keyspace: "k", Name: "ty", Rename: []Rename{{From: "a", To: "x"}}})
	if k := s.Keyspace("k"); k.Label("ty", "x") != "field" || k.Label("ty", "a") != "" ||
		k.Comment("ty", "x") != "comment" {
		t.Errorf("labels after a rename: %v, comments %v", k.labels, k.comments)
	}
	s = applyEncoded(t, s, &DropType{Keyspace: "k", Name: "ty"})
	s = applyEncoded(t, s, &AlterKeyspace{Keyspace: "k", Comment: &Comment{Label: true}})
	if k := s.Keyspace("k"); len(k.labels) != 0 || len(k.comments) != 0 {
		t.Errorf("labels after DROP TYPE and IS NULL: %v, comments %v", k.labels, k.comments)
	}
}
