package entity_test

import (
	"slices"
	"strings"
	"testing"

	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
)

func sorted(in []odata.Property) []odata.Property {
	out := slices.Clone(in)
	slices.SortFunc(out, func(a, b odata.Property) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func TestInsertedEntityIsRead(t *testing.T) {
	r := newTestRing(t, 1)
	r.create("People")
	stamps := r.apply("people", op(entity.Insert, "p", "r", text("Name", "Ann"), number("Age", 40)))
	s := r.nodes[0].store
	e, err := s.Get(anyone(), account, "PEOPLE", "p", "r", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := show(e); got != `p/r Age:Edm.Int32=40 Name:Edm.String="Ann"` || e.Timestamp != stamps[0] {
		t.Errorf("%s at %d, and it was written at %d", got, e.Timestamp, stamps[0])
	}
	_, err = s.Apply(anyone(), account, "People", []entity.Operation{op(entity.Insert, "p", "r")})
	if code(err) != odata.EntityAlreadyExists {
		t.Error(err)
	}
	page, err := s.Query(anyone(), account, "People", &entity.Query{
		Filter: &odata.Comparison{Property: "PartitionKey", Op: odata.Eq,
			Value: odata.Value{Type: odata.String, Bytes: []byte("p")}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Entities) != 1 || page.Next != nil || page.Plan != entity.RowRangeScan ||
		show(&page.Entities[0]) != show(e) {
		t.Errorf("%+v", page)
	}
}
