package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/failure"
	"cqld/storage/rowcache"
	"cqld/storage/rowkey"
)

const testTable schema.StorageID = 1024

func openTest(t testing.TB, o Options) *Engine {
	t.Helper()
	if o.Dir == "" {
		o.Dir = "db"
	}
	if o.FS == nil {
		o.FS = vfs.NewMem()
	}
	if o.Clock == nil {
		o.Clock = newTestClock()
	}
	if o.RowCacheBytes == 0 {
		o.RowCacheBytes = rowcache.BytesMin
	}
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// apply applies mutations and waits.
func apply(e *Engine, ms ...*row.Mutation) error {
	done := make(chan error, 1)
	if err := e.Apply(ms, true, func(err error) { done <- err }); err != nil {
		return err
	}
	return <-done
}

// mustTake applies mutations and does not wait; a refusal is fatal.
func mustTake(t testing.TB, e *Engine, ms []*row.Mutation, durable bool, done func(error)) {
	t.Helper()
	if err := e.Apply(ms, durable, done); err != nil {
		t.Fatal(err)
	}
}

func mustApply(t testing.TB, e *Engine, ms ...*row.Mutation) {
	t.Helper()
	if err := apply(e, ms...); err != nil {
		t.Fatal(err)
	}
}

// clusteringOf returns an ordered form of n as package types makes them: no component begins with 00 or FF.
func clusteringOf(n int) []byte { return binary.BigEndian.AppendUint32([]byte{0x80}, uint32(n)) }

// putRow returns a mutation that inserts one row.
func putRow(key string, n int, timestamp int64, value string) *row.Mutation {
	m := new(row.Mutation)
	m.Reset(testTable, row.NewPartitionKey([]byte(key)))
	r := row.NewRow()
	r.Clustering = clusteringOf(n)
	r.Liveness.Timestamp = timestamp
	r.Cells = []row.Cell{{Column: 3, Timestamp: timestamp, Value: []byte(value)}}
	m.AddRow(r)
	return m
}

func readKey(key string, slices ...row.Slice) *row.ReadCommand {
	if slices == nil {
		slices = []row.Slice{row.AllRows()}
	}
	return &row.ReadCommand{Table: testTable, Key: row.NewPartitionKey([]byte(key)), Slices: slices, Now: 1_000_000}
}

func readAll() *row.ReadCommand {
	return &row.ReadCommand{
		Table: testTable, Range: row.KeyRange{Tokens: ring.FullRange()},
		Slices: []row.Slice{row.AllRows()}, Now: 1_000_000,
	}
}

// rows returns the live rows of a page, as "key/clustering=value".
func rows(t testing.TB, page []byte) (out []string) {
	t.Helper()
	var reader row.PageReader
	var r row.Row
	reader.Reset(page)
	for reader.NextPartition() {
		for reader.NextRow(&r) {
			if !r.Live(1_000_000) {
				continue
			}
			text := fmt.Sprintf("%s/%d", reader.Key.Bytes, binary.BigEndian.Uint32(r.Clustering[1:]))
			for _, c := range r.Cells {
				text += "=" + string(c.Value)
			}
			out = append(out, text)
		}
	}
	if err := reader.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func mustRead(t testing.TB, e *Engine, cmd *row.ReadCommand) []byte {
	t.Helper()
	page, err := e.Read(nil, cmd)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func TestWriteIsReadBackAlsoAfterRestart(t *testing.T) {
	for _, inline := range []bool{false, true} {
		disk := vfs.NewMem()
		e := openTest(t, Options{FS: disk, Inline: inline})
		for i := range 10 {
			mustApply(t, e, putRow("a", i, 1, "x"), putRow("b", i, 1, "y"))
		}
		mustApply(t, e, putRow("a", 3, 2, "newer"))
		mustApply(t, e, putRow("a", 3, 1, "older"))
		for range 2 {
			got := rows(t, mustRead(t, e, readKey("a", row.ExactRow(clusteringOf(3)))))
			if fmt.Sprint(got) != "[a/3=newer]" {
				t.Fatalf("got %v", got)
			}
			if n := len(rows(t, mustRead(t, e, readAll()))); n != 20 {
				t.Fatalf("%d rows", n)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			e = openTest(t, Options{FS: disk, Inline: inline})
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTruncateAndDrop(t *testing.T) {
	e := openTest(t, Options{})
	defer e.Close()
	mustApply(t, e, putRow("a", 1, 1, "x"))
	if err := e.Truncate(testTable); err != nil {
		t.Fatal(err)
	}
	if got := rows(t, mustRead(t, e, readAll())); got != nil {
		t.Fatalf("after truncation: %v", got)
	}
	mustApply(t, e, putRow("a", 2, 1, "y"))
	if err := e.DropTable(testTable); err != nil {
		t.Fatal(err)
	}
	var unknown *failure.UnknownTable
	if _, err := e.Read(nil, readAll()); !errors.As(err, &unknown) {
		t.Fatalf("read of a dropped table: %v", err)
	}
	repair := readAll()
	repair.Repair = new(row.Repair)
	if got := rows(t, mustRead(t, e, repair)); got != nil {
		t.Fatalf("after drop: %v", got)
	}
	if err := apply(e, putRow("a", 3, 1, "z")); !errors.As(err, &unknown) {
		t.Fatalf("write to a dropped table: %v", err)
	}
}

func TestLocalKeysAreApartFromTables(t *testing.T) {
	e := openTest(t, Options{})
	defer e.Close()
	for _, k := range []string{"a", "b", "b/1", "b/2", "c", "\xff\xff"} {
		if err := e.SetLocal([]byte(k), []byte("v"+k), true); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.DeleteLocal([]byte("b/1"), true); err != nil {
		t.Fatal(err)
	}
	var got []string
	collect := func(k, v []byte) error { got = append(got, string(k)+"="+string(v)); return nil }
	for _, prefix := range []string{"b", "\xff", ""} {
		if err := e.ScanLocal([]byte(prefix), collect); err != nil {
			t.Fatal(err)
		}
		got = append(got, "|")
	}
	want := `["b=vb" "b/2=vb/2" "|" "\xff\xff=v\xff\xff" "|" "a=va" "b=vb" "b/2=vb/2" "c=vc" "\xff\xff=v\xff\xff" "|"]`
	if fmt.Sprintf("%q", got) != want {
		t.Fatalf("got %q", got)
	}
	if v, err := e.GetLocal([]byte("nothing")); v != nil || err != nil {
		t.Fatal(v, err)
	}
	if v, err := e.GetLocal([]byte("c")); string(v) != "vc" || err != nil {
		t.Fatal(v, err)
	}
}

// TestFilesEndBeforeTheTablesOfUsers: rows of the system's do not make files overlap that hold what came in order.
func TestFilesEndBeforeTheTablesOfUsers(t *testing.T) {
	e := openTest(t, Options{})
	defer e.Close()
	for i := range 4 {
		system := putRow("k", 1, int64(i), "state")
		system.Table = 8
		mustApply(t, e, system, putRow("k", 2*i, 1, "a"), putRow("k", 2*i+1, 1, "b"))
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	levels, err := e.db.SSTables()
	if err != nil {
		t.Fatal(err)
	}
	var users [][2]string
	for _, files := range levels {
		for _, f := range files {
			from, to := rowkey.TableOf(f.Smallest.UserKey), rowkey.TableOf(f.Largest.UserKey)
			if from < schema.FirstStorageID && to >= schema.FirstStorageID {
				t.Errorf("a file has tables %d to %d", from, to)
			}
			if from >= schema.FirstStorageID {
				users = append(users, [2]string{string(f.Smallest.UserKey), string(f.Largest.UserKey)})
			}
		}
	}
	slices.SortFunc(users, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	for i := range users {
		if i > 0 && users[i][0] <= users[i-1][1] {
			t.Errorf("files overlap: %x", users[i-1:i+1])
		}
	}
	if len(users) == 0 {
		t.Error("no file of the user's table")
	}
}
