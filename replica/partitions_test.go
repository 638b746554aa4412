package replica

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"cqld/coordinator"
)

func samplePartitionsReads() []*coordinator.PartitionsRead {
	return []*coordinator.PartitionsRead{
		{Table: 1024, Limit: 5},
		{Table: 1025, Span: coordinator.KeySpan{From: []byte{}, To: []byte{}}, Reversed: true, Now: -1, Moved: 7},
		{Table: 1, Span: coordinator.KeySpan{From: []byte("a"), To: []byte("b\x00")}, Limit: partitionKeysMax, Now: 123},
		{Table: 2, Dead: true},
		{Table: 2, Dead: true, Reversed: true},
	}
}

func samplePartitionsPages() []*coordinator.PartitionsPage {
	return []*coordinator.PartitionsPage{
		{},
		{Keys: [][]byte{{}, []byte("a"), []byte("b")}, Last: []byte("c"), More: true, Scanned: 9},
		{Keys: [][]byte{{0xFF}}, Last: []byte{}, Scanned: 1},
	}
}

func TestPartitionsRoundTrip(t *testing.T) {
	for _, q := range samplePartitionsReads() {
		payload := appendPartitionsRead(nil, 9, q)
		epoch, got, err := decodePartitionsRead(payload)
		if err != nil || epoch != 9 || !reflect.DeepEqual(q, got) {
			t.Errorf("%+v: %d, %+v, %v", q, epoch, got, err)
		}
		for cut := range payload {
			if _, _, err := decodePartitionsRead(payload[:cut]); err == nil {
				t.Errorf("%d of %d bytes are no request", cut, len(payload))
			}
		}
	}
	for _, p := range samplePartitionsPages() {
		payload := appendPartitionsPage(nil, p)
		got, err := decodePartitionsPage(payload)
		if err != nil || !reflect.DeepEqual(p, got) {
			t.Errorf("%+v: %+v, %v", p, got, err)
		}
		for cut := range payload {
			if _, err := decodePartitionsPage(payload[:cut]); err == nil {
				t.Errorf("%d of %d bytes are no reply", cut, len(payload))
			}
		}
	}
	if _, err := decodePartitionsPage(appendPartitionsPage(nil, &coordinator.PartitionsPage{More: true})); err == nil {
		t.Error("a page that goes on from nowhere")
	}
}

func FuzzDecodePartitions(f *testing.F) {
	for _, q := range samplePartitionsReads() {
		f.Add(appendPartitionsRead(nil, 9, q))
	}
	for _, p := range samplePartitionsPages() {
		f.Add(appendPartitionsPage(nil, p))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		if epoch, q, err := decodePartitionsRead(payload); err == nil {
			_, again, err := decodePartitionsRead(appendPartitionsRead(nil, epoch, q))
			if err != nil || !reflect.DeepEqual(q, again) {
				t.Errorf("%+v, again %+v, %v", q, again, err)
			}
		}
		if p, err := decodePartitionsPage(payload); err == nil {
			again, err := decodePartitionsPage(appendPartitionsPage(nil, p))
			if err != nil || !reflect.DeepEqual(p, again) {
				t.Errorf("%+v, again %+v, %v", p, again, err)
			}
		}
	})
}

// TestPartitionsReachStorage requests the partitions of a node, without those of other nodes.
func TestPartitionsReachStorage(t *testing.T) {
	remote, e, _, table := pair(t, 2, 1)
	list := func(epoch, moved uint64) (page *coordinator.PartitionsPage, err error) {
		q := &coordinator.PartitionsRead{
			Table: table.StorageID, Span: coordinator.KeySpan{From: []byte("a"), To: []byte("c")}, Reversed: true, Limit: 7, Now: 3, Moved: moved,
		}
		remote.Partitions(epoch, q, time.Second, func(p *coordinator.PartitionsPage, failure error) { page, err = p, failure })
		return page, err
	}
	page, err := list(5, 5)
	if err != nil || len(page.Keys) != 2 || string(page.Keys[1]) != "b" || string(page.Last) != "c" || !page.More || page.Scanned != 3 {
		t.Fatalf("%+v, %v", page, err)
	}
	q := e.listed
	if q.Table != table.StorageID || string(q.From) != "a" || string(q.To) != "c" || !q.Reversed || q.Limit != 7 || q.Now != 3 {
		t.Errorf("storage was asked %+v", q)
	}
	if !q.Holds(0) || q.Holds(1) { // tokens up to 0 are node 1's, the next ones node 2's
		t.Errorf("node 1 holds token 0: %v, 1: %v", q.Holds(0), q.Holds(1))
	}
	var refusal *coordinator.NotReplica
	for _, epochs := range [][2]uint64{{4, 4}, {6, 6}} {
		if _, err := list(epochs[0], epochs[1]); !errors.As(err, &refusal) || refusal.Epoch != 5 {
			t.Errorf("planned at epoch %d, refused with %v", epochs[0], err)
		}
	}
	if _, err := list(6, 5); err != nil {
		t.Errorf("the ring has not moved since: %v", err)
	}
}
