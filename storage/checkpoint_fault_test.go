package storage

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/await"
	"cqld/storage/failure"
	"cqld/storage/faultfs"
)

// TestCheckpointsMeetFaults makes a checkpoint on a disk that is at its end in each way, while rows are written. The
// checkpoint succeeds and has every row acknowledged before it, or fails with the reason. Rows that were acknowledged
// are there afterwards, in this engine or in the next one.
func TestCheckpointsMeetFaults(t *testing.T) {
	for name, test := range map[string]struct {
		begin    func(disk *faultfs.FS)
		flushing bool  // a flush fails when the checkpoint has begun
		fails    error // of the checkpoint; nil means it may succeed
		stops    bool  // the engine
		refuse   bool  // writes, after it
	}{
		"a failed fsync of the log": {
			begin: func(disk *faultfs.FS) {
				disk.Fail(func(op faultfs.Op, file string) error {
					if op == faultfs.OpSync && strings.HasSuffix(file, ".log") {
						return errDisk
					}
					return nil
				})
			},
			fails: failure.ErrStopped, stops: true,
		},
		"a failed fsync of the database's manifest": {
			begin: func(disk *faultfs.FS) {
				disk.Fail(func(op faultfs.Op, file string) error {
					if op == faultfs.OpSync && strings.HasPrefix(file, "MANIFEST") {
						return errDisk
					}
					return nil
				})
			},
			flushing: true, fails: failure.ErrStopped, stops: true,
		},
		"a failed fsync of the copy": {
			begin: func(disk *faultfs.FS) {
				disk.Fail(func(op faultfs.Op, file string) error {
					if op == faultfs.OpSync && (strings.HasPrefix(file, "MANIFEST") ||
						strings.HasPrefix(file, "OPTIONS") || strings.HasPrefix(file, "marker")) {
						return errDisk
					}
					return nil
				})
			},
			fails: errDisk,
		},
		"a full disk": {
			begin: func(disk *faultfs.FS) {
				free, total := disk.Space()
				disk.SetSpace(total - free + 1)
			},
			refuse: true,
		},
		"a corrupt block": {
			begin: func(disk *faultfs.FS) {
				disk.Fail(func(op faultfs.Op, file string) error {
					if op == faultfs.OpRead && strings.HasSuffix(file, ".sst") {
						return errDisk
					}
					return nil
				})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			disk := faultfs.Wrap(mem)
			disk.SetSpace(64 << 20)
			var stopped atomic.Bool
			e := openTest(t, Options{FS: disk, FreeSpace: disk.Space, MemTableBytes: 256 << 10, BallastBytes: 4 << 20,
				OnFatal: func(error) { stopped.Store(true) }, Logger: slog.New(slog.DiscardHandler)})
			acked := 0
			write := func(n int) (err error) {
				for range n {
					if err = apply(e, putRow("a", acked, 1, strings.Repeat(fmt.Sprint(acked), 200))); err != nil {
						return err
					}
					acked++
				}
				return nil
			}
			if err := write(500); err != nil {
				t.Fatal(err)
			}
			before := acked
			if err := e.Flush(); err != nil { // a later flush would change the database's manifest
				t.Fatal(err)
			}
			test.begin(disk)
			var err error
			if test.flushing {
				if err := write(1); err != nil {
					t.Fatal(err)
				}
				if err := e.Flush(); !errors.Is(err, failure.ErrStopped) {
					t.Fatal(err)
				}
			}
			within(t, "the checkpoint", func() {
				if test.flushing {
					err = e.db.Checkpoint("copy")
				} else {
					err = e.Checkpoint("copy")
				}
			})
			switch {
			case test.fails != nil && !errors.Is(err, test.fails):
				t.Errorf("the checkpoint ends with %v", err)
			case err == nil:
				disk.Fail(nil)
				c := openTest(t, Options{FS: disk, Dir: "copy", BallastBytes: -1})
				if got := len(rows(t, mustRead(t, c, readKey("a")))); got < before {
					t.Errorf("the checkpoint has %d of %d rows", got, before)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			case !errors.Is(err, errDisk) && !errors.Is(err, failure.ErrStopped) &&
				!errors.Is(err, failure.ErrDiskFull) &&
				!strings.Contains(err.Error(), "no space"):
				t.Errorf("the checkpoint ends with %v, which does not name the cause", err)
			}
			if test.stops { // OnFatal is called after requests fail
				await.Until(t, "the engine reports the failure", stopped.Load)
			} else if stopped.Load() {
				t.Error("the engine has stopped")
			}
			if err := write(1); (err != nil) != (test.stops || test.refuse) {
				t.Errorf("a write after it: %v", err)
			}
			disk.Fail(nil)
			disk.SetSpace(128 << 20)
			if err := e.Close(); (err != nil) != test.stops {
				t.Errorf("close: %v", err)
			}
			next := vfs.NewMem() // without the lock of an engine that cannot be closed
			if _, err := vfs.Clone(mem, next, "db", "db", vfs.CloneSync); err != nil {
				t.Fatal(err)
			}
			after := openTest(t, Options{FS: next, BallastBytes: -1})
			defer after.Close()
			if got := len(rows(t, mustRead(t, after, readKey("a")))); got < acked {
				t.Errorf("%d of %d acknowledged rows are there", got, acked)
			}
		})
	}
}
