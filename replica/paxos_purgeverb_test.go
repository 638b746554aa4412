package replica

import (
	"reflect"
	"testing"

	"cqld/ring"
	"cqld/row"
)

func TestPaxosPurgeMessagesComeBackAsTheyWent(t *testing.T) {
	key := row.NewPartitionKey([]byte("k"))
	purge := PaxosRequest{Epoch: 3, Moved: 2, Table: 8, Tokens: ring.Range{Start: -1, End: 5}, Floor: 1 << 50, Forget: true, After: &key}
	if got, err := decodePaxosRequest(appendPaxosRequest(nil, &purge)); err != nil || !reflect.DeepEqual(*got, purge) {
		t.Errorf("%+v, %v", got, err)
	}
	found := PaxosStep{Unsettled: []row.PartitionKey{key, {Token: -3, Bytes: []byte{}}}, Forgotten: 5, Next: &key, Scanned: 1 << 40}
	if got, err := decodePaxosStep(appendPaxosStep(nil, &found)); err != nil || !reflect.DeepEqual(got, found) {
		t.Errorf("%+v, %v", got, err)
	}
}

// FuzzPaxosPurgeMessages decodes messages as another node may have sent them.
func FuzzPaxosPurgeMessages(f *testing.F) {
	f.Add(appendPaxosRequest(nil, &PaxosRequest{Table: 5, Floor: 9, After: &row.PartitionKey{Bytes: []byte("k")}}))
	f.Add(appendPaxosStep(nil, &PaxosStep{Unsettled: []row.PartitionKey{{Token: 1, Bytes: []byte("k")}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := decodePaxosRequest(b); err == nil && r.After != nil && r.After.Bytes == nil {
			t.Error("a key that reads as none")
		}
		if s, err := decodePaxosStep(b); err == nil && 9*len(s.Unsettled) > len(b) {
			t.Errorf("%d keys in %d bytes", len(s.Unsettled), len(b))
		}
	})
}
