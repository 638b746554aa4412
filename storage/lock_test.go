package storage

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/ring"
	"cqld/row"
	"cqld/storage/failure"
)

// A second process that opens the directory of a running node fails before it changes anything there: it removed the
// sstables that the node was receiving.
func TestOpenRefusesADirectoryInUseAndLeavesItAsItIs(t *testing.T) {
	source := openTest(t, Options{Inline: true})
	defer source.Close()
	mustApply(t, source, putRow("key", 1, 1, "value"))
	block, _, err := source.Export(nil, testTable, ring.FullRange(), nil, nil, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{FS: vfs.NewMem(), Dir: "db", Clock: newTestClock(), BallastBytes: 1 << 20, Inline: true}
	running := openTest(t, o)
	defer func() {
		if err := running.Close(); err != nil {
			t.Error(err)
		}
	}()
	receiving := running.NewIngestion(testTable, ring.FullRange())
	if err := receiving.Add(block); err != nil {
		t.Fatal(err)
	}
	if err := o.FS.Remove(running.disk.BallastPath()); err != nil { // as on a full disk
		t.Fatal(err)
	}
	before := o.FS.(*vfs.MemFS).String()
	if _, err := Open(o); !errors.Is(err, failure.ErrInUse) {
		t.Errorf("a second process: %v, want %v", err, failure.ErrInUse)
	}
	if after := o.FS.(*vfs.MemFS).String(); after != before {
		t.Errorf("a second process changed the directory from\n%s to\n%s", before, after)
	}
	ship(t, rand.New(rand.NewPCG(1, 1)), source, running, ring.FullRange())
	all := &row.ReadCommand{Table: testTable, Range: row.KeyRange{Tokens: ring.FullRange()},
		Slices: []row.Slice{row.AllRows()}}
	page, err := running.Read(nil, all)
	if want, _ := source.Read(nil, all); err != nil || string(page) != string(want) {
		t.Errorf("after that: %s, %v", describePage(page), err)
	}
}

// A failed Open and a Close release the directory.
func TestOpenAndCloseReleaseTheDirectory(t *testing.T) {
	o := Options{FS: vfs.NewMem(), Dir: "db", Clock: newTestClock(), Inline: true}
	for range 3 {
		if err := openTest(t, o).Close(); err != nil {
			t.Fatal(err)
		}
		lock, err := lockDirectory(o.FS, o.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(o); !errors.Is(err, failure.ErrInUse) {
			t.Errorf("a locked directory: %v", err)
		}
		if err := lock.Close(); err != nil {
			t.Fatal(err)
		}
	}
	broken := o
	broken.FS = removeFails{o.FS}
	if _, err := Open(broken); !errors.Is(err, errRemove) {
		t.Errorf("an open that fails: %v", err)
	}
	if err := openTest(t, o).Close(); err != nil {
		t.Fatal(err)
	}
}

var errRemove = errors.New("cannot remove")

// removeFails is a file system that removes no directories.
type removeFails struct{ vfs.FS }

func (removeFails) RemoveAll(string) error { return errRemove }
