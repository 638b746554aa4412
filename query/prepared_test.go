package query

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"cqld/internal/wire"
	"cqld/ring"
)

func prepare(t *testing.T, p *Processor, s *Session, text string) *PreparedInfo {
	t.Helper()
	r, err := p.Prepare(context.Background(), s, text, "")
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r.Prepared
}

func TestPreparedIDsAreEqualOnAllNodes(t *testing.T) {
	a, sa := newTestProcessor(t, &modelStore{}, userTable)
	b, sb := newTestProcessor(t, &modelStore{}, userTable)
	text := "SELECT * FROM user WHERE user = ?"
	if !bytes.Equal(prepare(t, a, sa, text).ID, prepare(t, b, sb, text).ID) {
		t.Error("two nodes have two ids for one statement")
	}
	full := "SELECT * FROM ks.user WHERE user = ?"
	none := &Session{Version: 5}
	if !bytes.Equal(prepare(t, a, sa, full).ID, prepare(t, a, none, full).ID) {
		t.Error("the keyspace in use changes the id of a statement that does not need it")
	}
}

func TestPreparedTellsItsMarkers(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (a int, b text, c int, l list<int>, PRIMARY KEY ((a, b), c))")
	info := prepare(t, p, s, "SELECT c FROM t WHERE b = ? AND a = :x AND c IN ? LIMIT ?")
	want := []string{"b text", "x int", "in(c) list<int>", "[limit] int"}
	for i, c := range info.Binds {
		if got := c.Name + " " + c.Type.String(); got != want[i] {
			t.Errorf("marker %d is %s, want %s", i, got, want[i])
		}
	}
	if fmt.Sprint(info.PartitionKey) != "[1 0]" {
		t.Errorf("partition key markers %v", info.PartitionKey)
	}
	if len(info.Result.Columns) != 1 || info.Result.Columns[0].Name != "c" {
		t.Errorf("result columns %v", info.Result.Columns)
	}
	if info := prepare(t, p, s, "SELECT c FROM t WHERE b = 'x' AND a = ?"); len(info.PartitionKey) != 0 {
		t.Errorf("a partition key without all markers: %v", info.PartitionKey)
	}
}

func TestUnknownIDIsUnprepared(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{})
	var unprepared *Unprepared
	for _, id := range [][]byte{nil, {1, 2}, make([]byte, 16)} {
		_, err := p.Execute(context.Background(), s, id, &Params{})
		if !errors.As(err, &unprepared) || !bytes.Equal(unprepared.ID, id) {
			t.Errorf("%x: %v", id, err)
		}
	}
}

// TestAlterChangesTheMetadata: after an ALTER a client of v5 is told the new columns, one of v4 has to prepare
// again and gets them although it asks to skip them, and who knows them is spared them.
func TestAlterChangesTheMetadata(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (k int PRIMARY KEY, v int)", "INSERT INTO t (k, v) VALUES (1, 2)")
	info := prepare(t, p, s, "SELECT * FROM t WHERE k = ?")
	tryExecute := func(version int, metadata []byte) (*Result, error) {
		return p.Execute(context.Background(), &Session{Version: version, Keyspace: "ks"}, info.ID, &Params{Consistency: ring.One,
			SkipMetadata: true, ResultMetadataID: metadata, Values: []wire.Value{wire.BytesValue(wire.AppendInt32(nil, 1))}})
	}
	execute := func(version int, metadata []byte) *Result {
		r, err := tryExecute(version, metadata)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := execute(5, info.Result.ID); !r.NoMetadata || r.MetadataChanged {
		t.Error("a client that knows the columns is told them")
	}
	mustQuery(t, p, s, "ALTER TABLE t ADD w int")
	r := execute(5, info.Result.ID)
	if !r.MetadataChanged || r.NoMetadata || len(r.Metadata.Columns) != 3 {
		t.Error("a client of v5 is not told the new columns")
	}
	if r := execute(5, r.Metadata.ID); !r.NoMetadata {
		t.Error("a client that knows the new columns is told them")
	}
	var unprepared *Unprepared
	if _, err := tryExecute(4, nil); !errors.As(err, &unprepared) {
		t.Errorf("a client of v4 reads new rows by old columns: %v", err)
	}
	if again := prepare(t, p, s, "SELECT * FROM t WHERE k = ?"); !bytes.Equal(again.ID, info.ID) || len(again.Result.Columns) != 3 {
		t.Errorf("prepared again: %x, %v", again.ID, again.Result.Columns)
	}
	if r := execute(4, nil); r.NoMetadata {
		t.Error("another client of v4 reads new rows by old columns")
	}
	mustQuery(t, p, s, "DROP TABLE t")
	_, err := p.Execute(context.Background(), s, info.ID, &Params{Consistency: ring.One, Values: make([]wire.Value, 1)})
	var invalid *Invalid
	if !errors.As(err, &invalid) {
		t.Errorf("a statement on a dropped table: %v", err)
	}
}

func TestPlanCacheIsBounded(t *testing.T) {
	c := newPlanCache(100 * (planBytes + 40))
	keep := cacheKey{text: "keep"}
	c.put(keep, &plan{text: "0123456789"})
	for i := range 10000 {
		c.put(cacheKey{text: fmt.Sprint(i)}, &plan{text: "0123456789"})
		if i%10 == 0 && c.get(keep) == nil {
			t.Fatalf("a plan in use was dropped at %d", i)
		}
	}
	if n := len(c.entries()); n > 100 || n < 90 {
		t.Errorf("%d plans are kept, want about 100", n)
	}
}

func TestWrongNumberOfValues(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (k int PRIMARY KEY, v int)")
	info := prepare(t, p, s, "INSERT INTO t (k, v) VALUES (?, ?)")
	_, err := p.Execute(context.Background(), s, info.ID, &Params{Consistency: ring.One, Values: make([]wire.Value, 1)})
	if err == nil || err.Error() != "there were 2 markers(?) in CQL but 1 bound variables" {
		t.Errorf("got %v", err)
	}
}
