package sealed

import (
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/storage/encryption"
)

// TestProcessesReadTheFilesOfTheirPredecessors writes a file in each process, and rewrites the files of all.
func TestProcessesReadTheFilesOfTheirPredecessors(t *testing.T) {
	below := vfs.NewMem()
	for process := range 5 {
		disk := Disk(below, true, process, rand.New(rand.NewPCG(uint64(process), 1)))
		if err := Rewrite(disk, ""); err != nil {
			t.Fatal(err)
		}
		f, err := disk.Create(string(rune('a'+process)), vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Write([]byte("content"))
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		uses, err := encryption.Uses(below, disk.(*encryption.FS).Keys(), "")
		if err != nil || uses[0].Files != process+1 {
			t.Fatalf("process %d: %+v, %v", process, uses, err)
		}
		if f, err = disk.Open("a"); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil || string(b) != "content" {
			t.Fatalf("process %d: %q, %v", process, b, err)
		}
	}
}
