package repair

import (
	"reflect"
	"testing"

	"cqld/ring"
)

func TestRepairMessagesRoundTrip(t *testing.T) {
	request := HashRequest{Session: 1 << 60, Epoch: 7, Since: 300, Table: 1024,
		Tokens: ring.Range{Start: -5, End: ring.MinToken},
		Leaves: 4096, Now: -3, After: []byte("after")}
	if got, err := decodeHashRequest(appendHashRequest(nil, &request)); err != nil ||
		!reflect.DeepEqual(*got, request) {
		t.Errorf("%+v, %v", got, err)
	}
	step := HashStep{Leaves: []int{0, 4095}, Hashes: []LeafHash{{Rows: 1, Sum: [2]uint64{2, 3}}, {Rows: 1 << 40}},
		Next: []byte{}, Scanned: 1 << 30, Size: 5}
	if got, err := decodeHashStep(appendHashStep(nil, &step)); err != nil || !reflect.DeepEqual(got, step) {
		t.Errorf("%+v, %v", got, err)
	}
	step.Next = nil
	if got, err := decodeHashStep(appendHashStep(nil, &step)); err != nil || got.Next != nil {
		t.Errorf("the last step has %v, %v", got.Next, err)
	}
	notice := Notice{Session: 9, Table: 8, Tokens: ring.Range{Start: 1, End: 2}, Until: -1}
	if got, err := decodeNotice(appendNotice(nil, &notice)); err != nil || got != notice {
		t.Errorf("%+v, %v", got, err)
	}
}

// FuzzRepairMessages decodes arbitrary messages from another node.
func FuzzRepairMessages(f *testing.F) {
	f.Add(appendHashRequest(nil, &HashRequest{Table: 1, Leaves: 2, After: []byte{1}}))
	f.Add(appendHashStep(nil, &HashStep{Leaves: []int{3}, Hashes: []LeafHash{{Rows: 1}}, Next: []byte{1}}))
	f.Add(appendNotice(nil, &Notice{Table: 5}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := decodeHashRequest(b); err == nil && (r.Leaves < 0 || r.Leaves > 1<<20) {
			t.Errorf("%d leaves", r.Leaves)
		}
		if s, err := decodeHashStep(b); err == nil && len(s.Leaves) != len(s.Hashes) {
			t.Error("leaves without hashes")
		}
		_, _ = decodeNotice(b)
	})
}
