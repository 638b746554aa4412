package hints

import (
	"bytes"
	"strings"
	"testing"

	"cqld/internal/wire"
	"cqld/row"
)

// TestRecordsOfAnEarlierVersionAreRead reads a record whose entries are of both versions, as after an update of cqld
// that found a record.
func TestRecordsOfAnEarlierVersionAreRead(t *testing.T) {
	m := new(row.Mutation)
	m.Reset(7, row.NewPartitionKey([]byte("k")))
	x := row.NewRow()
	x.Clustering, x.Liveness.Timestamp = []byte("c"), 5
	m.AddRow(x)
	earlier := func(dst []byte) []byte {
		return row.AppendMutation(wire.AppendInt64(wire.AppendInt64(dst, 1_800_000_000), 42), m)
	}
	present := func(dst []byte) []byte {
		return appendEntry(dst, &entry{1_900_000_000, 43, 1_800_000_000_000_000_000, m})
	}
	c := wire.NewCursor(present(earlier(earlier(present(nil)))))
	for i, want := range []entry{
		{1_900_000_000, 43, 1_800_000_000_000_000_000, m}, {1_800_000_000, 42, 0, m}, {1_800_000_000, 42, 0, m},
		{1_900_000_000, 43, 1_800_000_000_000_000_000, m},
	} {
		got := consumeEntry(&c)
		same := got.mutation != nil && bytes.Equal(row.AppendMutation(nil, got.mutation), row.AppendMutation(nil, m))
		if !same || got.expiry != want.expiry || got.mark != want.mark || got.created != want.created {
			t.Fatalf("entry %d is %+v, want %+v", i, got, want)
		}
	}
	if err := c.Finish(); err != nil {
		t.Error(err)
	}
}

// TestEntriesOfALaterVersionAreRefused reads an entry whose version this build does not know: it is not decoded as
// another version.
func TestEntriesOfALaterVersionAreRefused(t *testing.T) {
	b := appendEntry(nil, &entry{expiry: 1, mark: 2, created: 3, mutation: new(row.Mutation)})
	b[0] = entryVersion + 1
	c := wire.NewCursor(b)
	if consumeEntry(&c); c.Err() == nil || !strings.Contains(c.Err().Error(), "version 2, this build reads 1") {
		t.Errorf("got %v", c.Err())
	}
}
