package replica

import (
	"bytes"
	"reflect"
	"testing"

	"cqld/repair"
	"cqld/ring"
	"cqld/row"
)

func TestRepairMessagesComeBackAsTheyWent(t *testing.T) {
	request := repair.HashRequest{Session: 1 << 60, Epoch: 7, Since: 300, Table: 1024, Tokens: ring.Range{Start: -5, End: ring.MinToken},
		Leaves: 4096, Now: -3, After: []byte("after")}
	if got, err := decodeHashRequest(appendHashRequest(nil, &request)); err != nil || !reflect.DeepEqual(*got, request) {
		t.Errorf("%+v, %v", got, err)
	}
	step := repair.HashStep{Leaves: []int{0, 4095}, Hashes: []repair.LeafHash{{Rows: 1, Sum: [2]uint64{2, 3}}, {Rows: 1 << 40}},
		Next: []byte{}, Scanned: 1 << 30, Size: 5}
	if got, err := decodeHashStep(appendHashStep(nil, &step)); err != nil || !reflect.DeepEqual(got, step) {
		t.Errorf("%+v, %v", got, err)
	}
	step.Next = nil
	if got, err := decodeHashStep(appendHashStep(nil, &step)); err != nil || got.Next != nil {
		t.Errorf("the last step has %v, %v", got.Next, err)
	}
	notice := repair.Notice{Session: 9, Table: 8, Tokens: ring.Range{Start: 1, End: 2}, Until: -1}
	if got, err := decodeNotice(appendNotice(nil, &notice)); err != nil || got != notice {
		t.Errorf("%+v, %v", got, err)
	}
	key := row.NewPartitionKey([]byte("k"))
	purge := repair.PaxosRequest{Epoch: 3, Moved: 2, Table: 8, Tokens: ring.Range{Start: -1, End: 5}, Floor: 1 << 50, Forget: true, After: &key}
	if got, err := decodePaxosRequest(appendPaxosRequest(nil, &purge)); err != nil || !reflect.DeepEqual(*got, purge) {
		t.Errorf("%+v, %v", got, err)
	}
	found := repair.PaxosStep{Unsettled: []row.PartitionKey{key, {Token: -3, Bytes: []byte{}}}, Forgotten: 5, Next: &key, Scanned: 1 << 40}
	if got, err := decodePaxosStep(appendPaxosStep(nil, &found)); err != nil || !reflect.DeepEqual(got, found) {
		t.Errorf("%+v, %v", got, err)
	}
	pull := streamRequest{first: true, epoch: 3, table: 8, tokens: ring.Range{Start: 3, End: -3}, bytesMax: 1000, after: []byte{}}
	if got, err := decodeStreamRequest(appendStreamRequest(nil, &pull)); err != nil || got.epoch != 3 || got.tokens != pull.tokens || !got.first {
		t.Errorf("%+v, %v", got, err)
	}
	pull.bytesMax = 1 << 40
	if got, err := decodeStreamRequest(appendStreamRequest(nil, &pull)); err != nil || got.bytesMax != streamBlockMax {
		t.Errorf("a block of %d bytes, %v", got.bytesMax, err)
	}
}

// FuzzRepairMessages decodes what another node may have sent.
func FuzzRepairMessages(f *testing.F) {
	f.Add(appendHashRequest(nil, &repair.HashRequest{Table: 1, Leaves: 2, After: []byte{1}}))
	f.Add(appendHashStep(nil, &repair.HashStep{Leaves: []int{3}, Hashes: []repair.LeafHash{{Rows: 1}}, Next: []byte{1}}))
	f.Add(appendNotice(nil, &repair.Notice{Table: 5}))
	f.Add(appendPaxosRequest(nil, &repair.PaxosRequest{Table: 5, Floor: 9, After: &row.PartitionKey{Bytes: []byte("k")}}))
	f.Add(appendPaxosStep(nil, &repair.PaxosStep{Unsettled: []row.PartitionKey{{Token: 1, Bytes: []byte("k")}}}))
	f.Add(appendStreamRequest(nil, &streamRequest{epoch: 1, bytesMax: 5}))
	sealed := append(appendStreamReply(nil, 5, []byte("next")), "block"...)
	sealStreamReply(sealed)
	f.Add(sealed)
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := decodeHashRequest(b); err == nil && (r.Leaves < 0 || r.Leaves > 1<<20) {
			t.Errorf("%d leaves", r.Leaves)
		}
		if s, err := decodeHashStep(b); err == nil && len(s.Leaves) != len(s.Hashes) {
			t.Error("leaves without hashes")
		}
		_, _ = decodeNotice(b)
		if r, err := decodePaxosRequest(b); err == nil && r.After != nil && r.After.Bytes == nil {
			t.Error("a key that reads as none")
		}
		if s, err := decodePaxosStep(b); err == nil && 9*len(s.Unsettled) > len(b) {
			t.Errorf("%d keys in %d bytes", len(s.Unsettled), len(b))
		}
		if r, err := decodeStreamRequest(b); err == nil && r.bytesMax > streamBlockMax {
			t.Errorf("a block of %d bytes", r.bytesMax)
		}
		if r, err := decodeStreamReply(b); err == nil && !bytes.HasSuffix(b, r.block) {
			t.Error("a block that was not sent")
		}
	})
}
