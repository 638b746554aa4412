package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"reflect"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/block"
	"cqld/storage/export"
)

// files returns the names and the contents of a directory.
func files(t *testing.T, disk vfs.FS, dir string) map[string]string {
	t.Helper()
	names, err := disk.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, name := range names {
		f, err := disk.Open(disk.PathJoin(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, info.Size())
		if len(b) > 0 {
			if _, err := f.ReadAt(b, 0); err != nil {
				t.Fatal(err)
			}
		}
		out[name] = string(b)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestCheckpointIsReadIntoAnotherTable makes a checkpoint with rows in files and in the log, reads it after the rows
// were removed, and ingests them as rows of another table whose columns have other ids. The directory of the checkpoint
// does not change.
func TestCheckpointIsReadIntoAnotherTable(t *testing.T) {
	const other schema.StorageID = 2000
	disk := vfs.NewMem()
	e := openTest(t, Options{FS: disk})
	for i := range 300 {
		if i == 200 {
			if err := e.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		mustApply(t, e, putRow(fmt.Sprint("k", i%7), i, 1, fmt.Sprint(i)))
	}
	if err := e.CheckpointTables("copy", []schema.StorageID{testTable}); err != nil {
		t.Fatal(err)
	}
	if err := e.Truncate(testTable); err != nil {
		t.Fatal(err)
	}
	before := files(t, disk, "copy")
	c, err := export.Open(disk, "copy", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	g, seen := e.NewIngestion(other, ring.FullRange()), 0
	for after := []byte(nil); ; {
		b, next, err := c.Append(nil, &export.Query{Table: testTable, Tokens: ring.FullRange(), After: after,
			BytesMax: 1000})
		if err != nil {
			t.Fatal(err)
		}
		rewritten, err := block.Rewrite(nil, b, other, func(r *row.Row) {
			// The rows with odd values are left out.
			value := r.Cells[0].Value
			seen++
			if (value[len(value)-1]-'0')%2 == 1 {
				r.Reset()
				return
			}
			r.Cells[0].Column = 9
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Add(rewritten); err != nil {
			t.Fatal(err)
		}
		if after = next; next == nil {
			break
		}
	}
	if err := g.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if seen != 300 {
		t.Errorf("the copy has %d rows, want 300", seen)
	}
	var got []string
	b, next, err := e.Export(nil, other, ring.FullRange(), nil, nil, 1<<20)
	if err != nil || next != nil {
		t.Fatal(next, err)
	}
	if _, err := block.Edit(b, func(_ row.PartitionKey, r *row.Row) error {
		if len(r.Cells) != 1 || r.Cells[0].Column != 9 || r.Cells[0].Timestamp != 1 {
			t.Errorf("a row has %+v", r.Cells)
		}
		got = append(got, string(r.Cells[0].Value))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := 0; i < 300; i += 2 {
		want = append(want, fmt.Sprint(i))
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("the other table has %d rows, want %d", len(got), len(want))
	}
	if !reflect.DeepEqual(files(t, disk, "copy"), before) {
		t.Error("reading has changed the directory of the copy")
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestOtherDirectoriesAreNoCheckpoints opens an empty directory, which must stay empty.
func TestOtherDirectoriesAreNoCheckpoints(t *testing.T) {
	disk := vfs.NewMem()
	if err := disk.MkdirAll("empty", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := export.Open(disk, "empty", slog.New(slog.DiscardHandler)); !errors.Is(err,
		fs.ErrNotExist) {
		t.Error(err)
	}
	if got := files(t, disk, "empty"); len(got) > 0 {
		t.Errorf("the directory has %v", got)
	}
}
