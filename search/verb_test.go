package search

import (
	"reflect"
	"testing"

	"cqld/ring"
	"cqld/row"
	"cqld/storage/index"
)

func samplePageRequests() []*PageRequest {
	key := row.NewPartitionKey([]byte("key"))
	return []*PageRequest{
		{Table: 5, Index: 6, Order: ByToken, Tokens: ring.FullRange(), Limit: 3, Now: 1},
		{Table: 5, Index: 1 << 20, Order: ByToken, Key: key, Reversed: true, Limit: 1, Now: -1, Moved: 7,
			Terms:  []row.Slice{row.ExactRow([]byte("a")), {Start: []byte("b"), End: []byte("c")}},
			From:   index.AppendPlaceEnd(nil, key),
			Slices: []row.Slice{row.ExactRow([]byte{1}), {Start: []byte{2}}}},
		{Table: 5, Index: 6, Order: ByToken, Tokens: ring.FullRange(), Limit: 3, Now: 1,
			Terms: []row.Slice{row.ExactRow([]byte("a"))},
			Union: []Branch{{Index: 7, Terms: []row.Slice{row.ExactRow([]byte("b")), {Start: []byte("c")}}},
				{Index: 8}}},
		{Table: 5, Index: 6, Order: ByScore, Tokens: ring.Range{Start: -5, End: 5}, Near: []byte{1, 2, 3, 4},
			Limit: 100, Now: 1 << 40},
	}
}

func samplePages() []*Page {
	return []*Page{
		{},
		{Last: Position("z"), Scanned: 3},
		{Candidates: []index.Candidate{{At: Position("a"), Page: []byte("row")}, {At: Position("b"), Page: nil}},
			Last: Position("b"), More: true,
			Scanned: 1 << 20},
	}
}

// TestRequestsAndPagesRoundTrip encodes and decodes requests and pages, and expects that no beginning of one is one.
func TestRequestsAndPagesRoundTrip(t *testing.T) {
	for _, q := range samplePageRequests() {
		payload := appendPageRequest(nil, 9, q)
		epoch, got, err := decodePageRequest(payload)
		if err != nil || epoch != 9 || !reflect.DeepEqual(appendPageRequest(nil, 9, got), payload) {
			t.Errorf("%+v arrived as %+v at epoch %d: %v", q, got, epoch, err)
		}
		if got.Index != q.Index || got.Limit != q.Limit || string(got.From) != string(q.From) ||
			len(got.Terms) != len(q.Terms) || len(got.Union) != len(q.Union) ||
			(got.Slices == nil) != (q.Slices == nil) || got.Reversed != q.Reversed || got.Moved != q.Moved {
			t.Errorf("%+v arrived as %+v", q, got)
		}
		for cut := range payload {
			if _, _, err := decodePageRequest(payload[:cut]); err == nil {
				t.Errorf("%d of %d bytes decode as a request", cut, len(payload))
			}
		}
	}
	for _, p := range samplePages() {
		payload := appendPage(nil, p)
		got, err := decodePage(payload)
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("%+v arrived as %+v: %v", p, got, err)
		}
		for cut := range payload {
			if _, err := decodePage(payload[:cut]); err == nil {
				t.Errorf("%d of %d bytes decode as a page", cut, len(payload))
			}
		}
	}
	if _, err := decodePage(appendPage(nil, &Page{More: true})); err == nil {
		t.Error("a page that is not the last one decodes without its last position")
	}
}

// FuzzDecodeSearch decodes requests and pages of searches: encoding and decoding a result again returns an equal one.
func FuzzDecodeSearch(f *testing.F) {
	for _, q := range samplePageRequests() {
		f.Add(appendPageRequest(nil, 9, q))
	}
	for _, p := range samplePages() {
		f.Add(appendPage(nil, p))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		if epoch, q, err := decodePageRequest(payload); err == nil {
			encoded := appendPageRequest(nil, epoch, q)
			_, again, err := decodePageRequest(encoded)
			if err != nil || string(appendPageRequest(nil, epoch, again)) != string(encoded) {
				t.Errorf("%+v, encoded again %+v: %v", q, again, err)
			}
		}
		if p, err := decodePage(payload); err == nil {
			again, err := decodePage(appendPage(nil, p))
			if err != nil || !reflect.DeepEqual(again, p) {
				t.Errorf("%+v, encoded again %+v: %v", p, again, err)
			}
		}
	})
}
