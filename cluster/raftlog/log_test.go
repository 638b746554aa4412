package raftlog

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// failingFS is a disk on which logs cannot be synced after a switch is set.
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

// TestFailedLogSyncSavesNothing shows that unsynced data are not considered saved: otherwise Raft would report to the
// other nodes that this one has them. Pebble reports the failure only to its logger.
func TestFailedLogSyncSavesNothing(t *testing.T) {
	var failing atomic.Bool
	var fatal atomic.Int32
	logger := pebbleLogger{log: slog.New(slog.DiscardHandler), fatal: func(error) { fatal.Add(1) }}
	l, err := open("raft", failingFS{vfs.NewMem(), &failing}, logger)
	if err != nil {
		t.Fatal(err)
	}
	last := uint64(3)
	save := func() error {
		last++
		term, vote, commit := last, uint64(1), uint64(0)
		return l.Save(&raft.Ready{HardState: &pb.HardState{Term: &term, Vote: &vote, Commit: &commit}})
	}
	if err := save(); err != nil {
		t.Fatal(err)
	}
	failing.Store(true)
	if err := save(); err == nil || fatal.Load() == 0 {
		t.Errorf("saved without a sync: %v; OnFatal was called %d times", err, fatal.Load())
	}
	failing.Store(false)
	if err := save(); err == nil {
		t.Error("a log that has failed is used again")
	}
	if hs, _, err := l.memory.InitialState(); err != nil || hs.GetTerm() != 4 {
		t.Errorf("Raft reads state that may not be on disk: %v, %v", hs, err)
	}
}

// TestFailedLogCreationSavesNothing makes the disk refuse the log that follows a full memtable's: Pebble would end the
// process.
func TestFailedLogCreationSavesNothing(t *testing.T) {
	var refusing atomic.Bool
	var fatal atomic.Int32
	logger := pebbleLogger{log: slog.New(slog.DiscardHandler), fatal: func(error) { fatal.Add(1) }}
	disk := refusingFS{vfs.NewMem(), &refusing}
	l, err := open("raft", disk, logger)
	if err != nil {
		t.Fatal(err)
	}
	refusing.Store(true)
	saved := uint64(0)
	for term := uint64(1); err == nil && saved < 100; saved++ {
		index := saved + 1
		if err = l.Save(&raft.Ready{Entries: []*pb.Entry{{Term: &term, Index: &index,
			Data: make([]byte, 100<<10)}}}); err != nil {
			break
		}
	}
	if err == nil || saved == 0 || fatal.Load() == 0 {
		t.Fatalf("%d entries saved, then %v; OnFatal was called %d times", saved, err, fatal.Load())
	}
	_ = l.Close() // it has failed
	refusing.Store(false)
	if l, err = open("raft", disk, logger); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if last := l.LastIndex(); last < saved {
		t.Errorf("the log ends at %d, %d entries were saved", last, saved)
	}
}

// refusingFS is a disk on which no logs can be created after a switch is set.
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

// TestTheRaftLogSurvivesPowerLoss saves random states and entries, compacts the log, and reads the disk as a power loss
// leaves it after each step. The saved term, vote, commit, snapshot and following entries exist.
func TestTheRaftLogSurvivesPowerLoss(t *testing.T) {
	logger := pebbleLogger{log: slog.New(slog.DiscardHandler), fatal: func(err error) { t.Error(err) }}
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		disk := vfs.NewCrashableMem()
		l, err := open("raft", disk, logger)
		if err != nil {
			t.Fatal(err)
		}
		var term, commit uint64
		for step := range 15 {
			if last := l.LastIndex(); commit > 0 && rng.IntN(4) == 0 {
				err = l.Compact(commit, &pb.ConfState{Voters: []uint64{1, 2, 3}}, fmt.Append(nil, "state ", commit), 2)
			} else {
				err = l.Save(drawReady(rng, last, &term, &commit))
			}
			if err != nil {
				// A snapshot that is not newer than the last one is refused, and has no effect.
				if !errors.Is(err, raft.ErrSnapOutOfDate) {
					t.Fatal(err)
				}
			}
			want := describeLog(t, l)
			crashed := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
			after, err := open("raft", crashed, logger)
			if err != nil {
				t.Fatal(err)
			}
			if got := describeLog(t, after); got != want {
				t.Fatalf("seed %d, step %d: after a power loss the log is\n%s\nand was\n%s", seed, step, got, want)
			}
			if rng.IntN(3) > 0 {
				if err := after.Close(); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := l.Close(); err != nil { // the node continues with the data that the power loss has left
				t.Fatal(err)
			}
			l, disk = after, crashed
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// drawReady draws data that Raft may save next: a vote in a later term, entries that replace uncommitted ones, a later
// commit, or all of them.
func drawReady(rng *rand.Rand, last uint64, term, commit *uint64) *raft.Ready {
	rd := new(raft.Ready)
	if rng.IntN(3) > 0 {
		*term += uint64(rng.IntN(2))
		first := *commit + 1 + rng.Uint64N(last-*commit+1)
		for i := range uint64(1 + rng.IntN(4)) {
			index, t := first+i, *term
			rd.Entries = append(rd.Entries, &pb.Entry{Index: &index, Term: &t,
				Data: fmt.Append(nil, "entry ", index, " of term ", t)})
			last = index
		}
	}
	if rd.Entries == nil || rng.IntN(2) == 0 {
		*term += uint64(rng.IntN(2))
		*commit += rng.Uint64N(last - *commit + 1)
		t, vote, c := max(1, *term), rng.Uint64N(4), *commit
		*term = t
		rd.HardState = &pb.HardState{Term: &t, Vote: &vote, Commit: &c}
	}
	return rd
}

// describeLog returns Raft's view of a log: state, snapshot, and the following entries.
func describeLog(t *testing.T, l *Log) string {
	t.Helper()
	hs, cs, err := l.memory.InitialState()
	if err != nil {
		t.Fatal(err)
	}
	snap, err := l.memory.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	at, last := snap.GetMetadata().GetIndex(), l.LastIndex()
	out := fmt.Sprintf("term %d, vote %d, commit %d, voters %v, snapshot %d %q", hs.GetTerm(), hs.GetVote(),
		hs.GetCommit(), cs.GetVoters(), at, snap.GetData())
	if last == at {
		return out
	}
	entries, err := l.memory.Entries(at+1, last+1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out += fmt.Sprintf("\n%d/%d %q", e.GetIndex(), e.GetTerm(), e.GetData())
	}
	return out
}

// Entries that a snapshot replaces are also removed from the disk, including the later ones, which were never
// committed.
func TestSnapshotReplacesLog(t *testing.T) {
	fs := vfs.NewMem()
	logger := pebbleLogger{log: slog.New(slog.DiscardHandler), fatal: func(err error) { t.Error(err) }}
	l, err := open("raft", fs, logger)
	if err != nil {
		t.Fatal(err)
	}
	var stale []*pb.Entry
	for i := uint64(1); i <= 9; i++ {
		term, index := uint64(1), i
		stale = append(stale, &pb.Entry{Term: &term, Index: &index})
	}
	if err := l.Save(&raft.Ready{Entries: stale}); err != nil {
		t.Fatal(err)
	}
	term, index := uint64(3), uint64(6)
	snap := &pb.Snapshot{Data: []byte("state"), Metadata: &pb.SnapshotMetadata{Term: &term, Index: &index,
		ConfState: &pb.ConfState{Voters: []uint64{1}}}}
	if err := l.Save(&raft.Ready{Snapshot: snap}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = open("raft", fs, logger); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if last := l.LastIndex(); last != 6 {
		t.Errorf("the log ends at %d, the snapshot at 6", last)
	}
}
