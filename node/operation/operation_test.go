package operation

import (
	"testing"
	"time"

	"cqld/azuretables"
	"cqld/azuretables/odata"
)

// The requests of clients do not increase the number of operation names.
func TestTablesOperations(t *testing.T) {
	got := map[Kind]bool{}
	for r := range odata.Resource(13) {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "MERGE", "DELETE", "OPTIONS", "anything", ""} {
			for _, comp := range []string{"", "acl", "anything"} {
				o := Of(azuretables.Answer{Resource: r, Method: method, Comp: comp})
				if o.String() == "" {
					t.Errorf("operation %d has no name", o)
				}
				got[o] = true
			}
		}
	}
	if len(got) != int(Kinds) {
		t.Errorf("%d operations of %d are met", len(got), Kinds)
	}
	var f Counts
	for _, status := range []int{0, 204, 404, 503, 999} {
		f.Answered(azuretables.Answer{Resource: odata.OneEntity, Method: "GET", Status: status, Took: time.Millisecond})
	}
	o := &f.operations[Get]
	if o.statuses[2].Load() != 1 || o.statuses[4].Load() != 1 || o.statuses[5].Load() != 2 {
		t.Error("answers are counted elsewhere")
	}
}
