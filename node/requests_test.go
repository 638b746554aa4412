package node

import (
	"testing"
	"time"

	"cqld/azuretables"
	"cqld/azuretables/odata"
)

// The requests of clients do not increase the number of operation names.
func TestTablesOperations(t *testing.T) {
	got := map[tablesOperation]bool{}
	for r := range odata.Resource(12) {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "MERGE", "DELETE", "OPTIONS", "anything", ""} {
			for _, comp := range []string{"", "acl", "anything"} {
				o := operationOf(azuretables.Answer{Resource: r, Method: method, Comp: comp})
				if o.String() == "" {
					t.Errorf("operation %d has no name", o)
				}
				got[o] = true
			}
		}
	}
	if len(got) != int(tablesOperations) {
		t.Errorf("%d operations of %d are met", len(got), tablesOperations)
	}
	var f tablesFigures
	for _, status := range []int{0, 204, 404, 503, 999} {
		f.answered(azuretables.Answer{Resource: odata.OneEntity, Method: "GET", Status: status, Took: time.Millisecond})
	}
	o := &f.operations[getEntity]
	if o.statuses[2].Load() != 1 || o.statuses[4].Load() != 1 || o.statuses[5].Load() != 2 {
		t.Error("answers are counted elsewhere")
	}
}
