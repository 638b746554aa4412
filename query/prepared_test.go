package query

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/ring"
)

func prepare(t *testing.T, p *Processor, s *Session, text string) *PreparedInfo {
	t.Helper()
	r, err := p.Prepare(at(ring.One), s, text, "")
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

func TestPreparedMarkers(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (a int, b text, c int, l list<int>, PRIMARY KEY ((a, "+
		"b), c))")
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
	var unprepared *invalid.Unprepared
	for _, id := range [][]byte{nil, {1, 2}, make([]byte, 16)} {
		_, err := p.Execute(at(ring.One), s, id, &Params{})
		if !errors.As(err, &unprepared) || !bytes.Equal(unprepared.ID, id) {
			t.Errorf("%x: %v", id, err)
		}
	}
}

// TestAlterUnpreparesStatements checks that, after a change of its table's columns, a statement must be prepared again,
// once, in all versions of the protocol, as in Cassandra. A client that still uses the old columns receives the new
// ones.
func TestAlterUnpreparesStatements(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TYPE ty (a int)",
		"CREATE TABLE t (k int PRIMARY KEY, v int, u ty, l list<frozen<ty>>)",
		"INSERT INTO t (k, v) VALUES (1, 2)",
		"CREATE TABLE other (k int PRIMARY KEY)")
	const text = "SELECT * FROM t WHERE k = ?"
	info, other := prepare(t, p, s, text), prepare(t, p, s, "SELECT * FROM other WHERE k = ?")
	execute := func(version int, info *PreparedInfo, metadata []byte) (*Result, error) {
		return p.Execute(at(ring.One), &Session{Version: version, Keyspace: "ks"}, info.ID, &Params{
			SkipMetadata: true, ResultMetadataID: metadata,
			Values: []wire.Value{wire.BytesValue(wire.AppendInt32(nil, 1))}})
	}
	var unprepared *invalid.Unprepared
	for _, version := range []int{4, 5} {
		if r, err := execute(version, info, info.Result.ID); err != nil || !r.NoMetadata || r.MetadataChanged {
			t.Errorf("a client of v%d that knows the columns is sent them: %v", version, err)
		}
	}
	for _, alter := range []string{"ALTER TABLE t ADD w int", "ALTER TABLE t DROP w", "ALTER TYPE ty ADD b int",
		"ALTER TYPE ty RENAME b TO c"} {
		mustQuery(t, p, s, alter)
		for _, version := range []int{4, 5} {
			if _, err := execute(version, info, info.Result.ID); !errors.As(err, &unprepared) {
				t.Errorf("%s, v%d: %v", alter, version, err)
			}
			if _, err := execute(version, other, other.Result.ID); err != nil {
				t.Errorf("%s: a statement on another table: %v", alter, err)
			}
		}
		again := prepare(t, p, s, text)
		if !bytes.Equal(again.ID, info.ID) || bytes.Equal(again.Result.ID, info.Result.ID) {
			t.Errorf("%s: prepared again with id %x, result %x", alter, again.ID, again.Result.ID)
		}
		if r, err := execute(5, again, again.Result.ID); err != nil || !r.NoMetadata || r.MetadataChanged {
			t.Errorf("%s: a client of v5 that prepared again is sent the columns: %v", alter, err)
		}
		if r, err := execute(5, again, info.Result.ID); err != nil || !r.MetadataChanged || r.NoMetadata {
			t.Errorf("%s: another client of v5 is not sent the new columns: %v", alter, err)
		}
		if r, err := execute(4, again, nil); err != nil || r.NoMetadata {
			t.Errorf("%s: another client of v4 reads new rows by old columns: %v", alter, err)
		}
		info = again
	}
	mustQuery(t, p, s, "ALTER TABLE t WITH comment = 'x'")
	if _, err := execute(5, info, info.Result.ID); err != nil {
		t.Errorf("a comment unprepares: %v", err)
	}
	mustQuery(t, p, s, "DROP TABLE t")
	if _, err := execute(5, info, info.Result.ID); !errors.As(err, &unprepared) {
		t.Errorf("a statement on a dropped table: %v", err)
	}
}

// TestPlansFollowNamedTypes checks that a statement whose type hint names a type that its table does not use follows
// changes of the type, unprepared and prepared.
func TestPlansFollowNamedTypes(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TYPE inner (a int)", "CREATE TYPE ty (i frozen<inner>)",
		"CREATE TABLE t (k int PRIMARY KEY)", "INSERT INTO t (k) VALUES (1)")
	const text = "SELECT (frozen<list<frozen<ty>>>) [{i: {a: 1}}] AS x FROM t"
	info := prepare(t, p, s, text)
	class := func(r *Result) string { return r.Metadata.Columns[0].Type.MarshalClass() }
	before := class(mustQuery(t, p, s, text))
	mustQuery(t, p, s, "ALTER TYPE inner ADD b int")
	after := mustQuery(t, p, s, text)
	if class(after) == before {
		t.Errorf("the type before ALTER TYPE: %s", before)
	}
	r, err := p.Execute(at(ring.One), &Session{Version: 5, Keyspace: "ks"}, info.ID, &Params{SkipMetadata: true,
		ResultMetadataID: info.Result.ID})
	if err != nil || !r.MetadataChanged || class(r) != class(after) {
		t.Errorf("prepared before ALTER TYPE: %v", err)
	}
	mustQuery(t, p, s, "DROP TYPE ty")
	for name, run := range map[string]func() (*Result, error){
		"unprepared": func() (*Result, error) { return p.Query(at(ring.One), s, text, &Params{}) },
		"prepared":   func() (*Result, error) { return p.Execute(at(ring.One), s, info.ID, &Params{}) },
	} {
		if _, err := run(); err == nil || !strings.Contains(err.Error(), "Unknown type") {
			t.Errorf("%s, after DROP TYPE: %v", name, err)
		}
	}
}

func TestWrongNumberOfValues(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (k int PRIMARY KEY, v int)")
	info := prepare(t, p, s, "INSERT INTO t (k, v) VALUES (?, ?)")
	_, err := p.Execute(at(ring.One), s, info.ID, &Params{Values: make([]wire.Value, 1)})
	if err == nil || err.Error() != "there were 2 markers(?) in CQL but 1 bound variables" {
		t.Errorf("got %v", err)
	}
}
