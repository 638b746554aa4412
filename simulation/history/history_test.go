package history

import (
	"testing"

	"cqld/row"
)

// TestRegistersAreJudged passes histories of one register to the checker.
func TestRegistersAreJudged(t *testing.T) {
	write := func(value, call, returned int64) *RegisterCall {
		return &RegisterCall{Write: true, Value: value, Call: call, Returned: returned}
	}
	read := func(value, call, returned int64) *RegisterCall {
		return &RegisterCall{Client: 1, Value: value, Call: call, Returned: returned}
	}
	refused := write(1, 1, 0)
	refused.Dropped = true
	for name, x := range map[string]struct {
		may   bool
		calls []*RegisterCall
	}{
		"a write and a read":               {true, []*RegisterCall{write(1, 1, 2), read(1, 3, 4)}},
		"a lost write":                     {false, []*RegisterCall{write(1, 1, 2), read(0, 3, 4)}},
		"an older value after a newer one": {false, []*RegisterCall{write(1, 1, 9), read(1, 2, 3), read(0, 4, 5)}},
		"a write of unknown outcome, seen": {true, []*RegisterCall{write(1, 1, 0), read(0, 2, 3), read(1, 4, 5)}},
		"a write of unknown outcome, seen once": {false,
			[]*RegisterCall{write(1, 1, 0), read(1, 2, 3), read(0, 4, 5)}},
		"a write that was refused": {false, []*RegisterCall{refused, read(1, 2, 3)}},
	} {
		if violation := CheckRegister(x.calls, 0, 2); (violation == "") != x.may {
			t.Errorf("%s: may be %v, but got %q", name, x.may, violation)
		}
	}
}

// TestConditionalChangesAreJudged passes histories of one register to the checker.
func TestConditionalChangesAreJudged(t *testing.T) {
	change := func(expect, value, call, returned int64, applied bool, found int64) *ConditionalCall {
		return &ConditionalCall{Input: ConditionalInput{expect, value}, Call: call, Returned: returned,
			Output: ConditionalOutput{Applied: applied, Found: found}}
	}
	read := func(found, call int64) *ConditionalCall {
		return &ConditionalCall{Client: 1, Call: call, Returned: call + 1, Output: ConditionalOutput{Found: found}}
	}
	for name, x := range map[string]struct {
		may   bool
		calls []*ConditionalCall
	}{
		"two changes in order": {true,
			[]*ConditionalCall{change(0, 1, 1, 2, true, 0), change(1, 2, 3, 4, true, 0), read(2, 5)}},
		"two changes of one value": {false,
			[]*ConditionalCall{change(0, 1, 1, 2, true, 0), change(0, 2, 3, 4, true, 0)}},
		"a refusal that shows the value": {true,
			[]*ConditionalCall{change(0, 1, 1, 2, true, 0), change(0, 2, 3, 4, false, 1)}},
		"a refusal although the value is the expected one": {false,
			[]*ConditionalCall{change(0, 1, 1, 2, true, 0), change(1, 2, 3, 4, false, 1)}},
		"a change of unknown outcome that a later one continues": {true,
			[]*ConditionalCall{change(0, 1, 1, 0, false, 0), change(1, 2, 3, 4, true, 0), read(2, 5)}},
		"a change of unknown outcome, seen once": {false,
			[]*ConditionalCall{change(0, 1, 1, 0, false, 0), read(1, 2), read(0, 4)}},
	} {
		if violation := CheckConditional(x.calls, 0, 2); (violation == "") != x.may {
			t.Errorf("%s: may be %v, but got %q", name, x.may, violation)
		}
	}
}

// TestCountersAreJudged reads a counter after an addition that was acknowledged, one that is in progress, and one that
// was refused.
func TestCountersAreJudged(t *testing.T) {
	additions := []*Addition{{Delta: 5, Call: 1, Returned: 2}, {Delta: -2, Call: 3}, {Delta: 7, Call: 4, Dropped: true},
		{Key: 1, Delta: 9, Call: 1, Returned: 2}, {Delta: 3, Call: 20}}
	for value := range int64(10) {
		violation := CheckCounter(additions, 0, value, 10, 11)
		if may := violation == ""; may != (value >= 3 && value <= 5) {
			t.Errorf("a counter of %d: may be %v: %s", value, may, violation)
		}
	}
}

// TestSetsAreJudged reads a partition of an element that was added, one whose deletion was acknowledged, and one whose
// addition was refused.
func TestSetsAreJudged(t *testing.T) {
	key := row.NewPartitionKey([]byte("set"))
	var set Set
	for _, e := range []*Element{{Clustering: "a", AddCall: 1, Added: 2},
		{Clustering: "b", AddCall: 1, Added: 2, DeleteCall: 3, Deleted: 4},
		{Clustering: "c", AddCall: 1, AddSkipped: true}} {
		e.Key = key
		if !set.Add(e) || set.Add(e) {
			t.Fatalf("element %s is not added once", e.Clustering)
		}
	}
	for rows, violations := range map[string]int{"a": 0, "": 1, "ab": 1, "ac": 1, "abc": 2, "ax": 1} {
		var page row.PageWriter
		page.Partition(key, row.NewRow(), nil)
		for _, clustering := range rows {
			r := row.NewRow()
			r.Clustering, r.Liveness.Timestamp = []byte(string(clustering)), 1
			page.Row(r)
		}
		page.EndPartition()
		cmd := &row.ReadCommand{Key: key, Slices: []row.Slice{row.AllRows()}}
		if found := set.Check(cmd, page.Finish(false), 10, 11); len(found) != violations {
			t.Errorf("rows %q: %q, want %d violations", rows, found, violations)
		}
	}
}
