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

// TestALogThatCannotBeBegunSavesNothing lets the disk refuse the log that follows a full memtable's: Pebble would end the
// process.
func TestALogThatCannotBeBegunSavesNothing(t *testing.T) {
	var refusing atomic.Bool
	var fatal atomic.Int32
	logger := pebbleLogger{log: slog.New(slog.DiscardHandler), fatal: func(error) { fatal.Add(1) }}
	disk := refusingFS{vfs.NewMem(), &refusing}
	l, err := openRaftLog("raft", disk, logger)
	if err != nil {
		t.Fatal(err)
	}
	refusing.Store(true)
	saved := uint64(0)
	for term := uint64(1); err == nil && saved < 100; saved++ {
		index := saved + 1
		if err = l.save(&raft.Ready{Entries: []*pb.Entry{{Term: &term, Index: &index, Data: make([]byte, 100<<10)}}}); err != nil {
			break
		}
	}
	if err == nil || saved == 0 || fatal.Load() == 0 {
		t.Fatalf("%d entries saved, then %v; the node was told %d times to stop", saved, err, fatal.Load())
	}
	_ = l.close() // it has failed
	refusing.Store(false)
	if l, err = openRaftLog("raft", disk, logger); err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if last := l.memoryLastIndex(); last < saved {
		t.Errorf("the log ends at %d, %d entries were saved", last, saved)
	}
}

// refusingFS is a disk on which no logs can be made, once it is told so.
type refusingFS struct {
	vfs.FS
	refusing *atomic.Bool
}

func (f refusingFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if f.refusing.Load() && strings.HasSuffix(name, ".log") {
		return nil, errSync
	}
	return f.FS.Create(name, category)
}
