package acceptor

import (
	"reflect"
	"testing"

	"cqld/ring"
	"cqld/row"
)

func TestPaxosPurgeMessagesRoundTrip(t *testing.T) {
	key := row.NewPartitionKey([]byte("k"))
	purge := PurgeRequest{Epoch: 3, Moved: 2, Table: 8, Tokens: ring.Range{Start: -1, End: 5}, LowBound: 1 << 50,
		Forget: true, After: &key}
	if got, err := decodePurgeRequest(appendPurgeRequest(nil, &purge)); err != nil || !reflect.DeepEqual(*got, purge) {
		t.Errorf("%+v, %v", got, err)
	}
	found := PurgeStep{Unsettled: []row.PartitionKey{key, {Token: -3, Bytes: []byte{}}}, Forgotten: 5, Next: &key,
		Scanned: 1 << 40}
	if got, err := decodePurgeStep(appendPurgeStep(nil, &found)); err != nil || !reflect.DeepEqual(got, found) {
		t.Errorf("%+v, %v", got, err)
	}
}

// FuzzPaxosPurgeMessages decodes arbitrary messages from another node.
func FuzzPaxosPurgeMessages(f *testing.F) {
	f.Add(appendPurgeRequest(nil, &PurgeRequest{Table: 5, LowBound: 9, After: &row.PartitionKey{Bytes: []byte("k")}}))
	f.Add(appendPurgeStep(nil, &PurgeStep{Unsettled: []row.PartitionKey{{Token: 1, Bytes: []byte("k")}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := decodePurgeRequest(b); err == nil && r.After != nil && r.After.Bytes == nil {
			t.Error("a key that reads as none")
		}
		if s, err := decodePurgeStep(b); err == nil && 9*len(s.Unsettled) > len(b) {
			t.Errorf("%d keys in %d bytes", len(s.Unsettled), len(b))
		}
	})
}
