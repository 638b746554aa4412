package cluster

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// failingFS is a disk on which logs cannot be synced any more, once it is told so.
type failingFS struct {
	vfs.FS
	failing *atomic.Bool
}

type failingFile struct {
	vfs.File
	failing *atomic.Bool
}

var errSync = errors.New("input/output error")

func (f failingFile) fail(sync func() error) error {
	if f.failing.Load() {
		return errSync
	}
	return sync()
}

func (f failingFile) Sync() error     { return f.fail(f.File.Sync) }
func (f failingFile) SyncData() error { return f.fail(f.File.SyncData) }

func (f failingFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, category)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return file, err
	}
	return failingFile{file, f.failing}, nil
}

// TestALogThatCannotBeSyncedSavesNothing shows that what is not on disk is not taken for saved: Raft would tell
// the other nodes that this one has it. Pebble itself says so to its logger only.
func TestALogThatCannotBeSyncedSavesNothing(t *testing.T) {
	var failing atomic.Bool
	var fatal atomic.Int32
	logger := pebbleLogger{log: slog.New(slog.DiscardHandler), fatal: func(error) { fatal.Add(1) }}
	l, err := openRaftLog("raft", failingFS{vfs.NewMem(), &failing}, logger)
	if err != nil {
		t.Fatal(err)
	}
	last := uint64(3)
	save := func() error {
		last++
		term, vote, commit := last, uint64(1), uint64(0)
		return l.save(&raft.Ready{HardState: &pb.HardState{Term: &term, Vote: &vote, Commit: &commit}})
	}
	if err := save(); err != nil {
		t.Fatal(err)
	}
	failing.Store(true)
	if err := save(); err == nil || fatal.Load() == 0 {
		t.Errorf("saved without a sync: %v; the node was told %d times to stop", err, fatal.Load())
	}
	failing.Store(false)
	if err := save(); err == nil {
		t.Error("a log that has failed is used again")
	}
	if hs, _, err := l.memory.InitialState(); err != nil || hs.GetTerm() != 4 {
		t.Errorf("Raft was shown what may not be on disk: %v, %v", hs, err)
	}
}
