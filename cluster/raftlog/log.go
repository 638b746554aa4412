package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"cqld/internal/invariant"
	"cqld/storage/compaction"
	"cqld/storage/logguard"
)

// Log stores Raft's entries, hard state and snapshot, and this node's identity, in its own small Pebble database. The
// data that raft.Storage reads is also kept in memory, because the log is short.
//
//	'v'  version of this layout    'i'          identity
//	'h'  hard state                's' snapshot     'e' index(8)  entry
type Log struct {
	// db is the durable copy. memory changes only after db, so Raft never reads data that is not on disk.
	db     *pebble.DB
	memory *raft.MemoryStorage
	// failed is the error after which saved data can no longer be relied on. Pebble itself continues after such an
	// error.
	failed *atomic.Pointer[error]
}

var (
	// Package identity encodes the identity; the values of Raft are protocol buffers of etcd/raft.
	keyVersion   = []byte{'v'}
	keyIdentity  = []byte{'i'}
	keyHardState = []byte{'h'}
	keySnapshot  = []byte{'s'}
)

// Version is the version of the layout of a log: its keys, the identity, and Pebble's own format. Commands, and the
// metadata in the snapshot, have cluster versions instead. The value is one byte. Logs of builds before the first
// release have no version, and the layout of version 1.
const Version = 1

// pebbleFormat is Pebble's format major version in layout 1. It is pinned, because a newer Pebble must not upgrade the
// files: the node could not be downgraded.
const pebbleFormat = pebble.FormatValueSeparation

// keyEntry is big-endian, so that an iterator returns entries in the order of their indices.
func keyEntry(index uint64) []byte { return binary.BigEndian.AppendUint64([]byte{'e'}, index) }

// Open opens or creates the log in dir. fatal is called when saved data can no longer be relied on: the node must stop.
func Open(dir string, fs vfs.FS, log *slog.Logger, fatal func(error)) (*Log, error) {
	return open(dir, fs, pebbleLogger{log: log, fatal: fatal})
}

// Storage returns the log as Raft reads it.
func (l *Log) Storage() *raft.MemoryStorage { return l.memory }

// Err returns the error after which saved data can no longer be relied on, or nil.
func (l *Log) Err() error {
	if f := l.failed.Load(); f != nil {
		return *f
	}
	return nil
}

// Fail marks the log as failed, unless it has failed before.
func (l *Log) Fail(err error) { l.failed.CompareAndSwap(nil, &err) }

// Identity returns what SaveIdentity saved; nil means nothing.
func (l *Log) Identity() ([]byte, error) {
	b, closer, err := l.db.Get(keyIdentity)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("raftlog: read identity: %w", err)
	}
	// Pebble owns b until closer is closed.
	defer closer.Close()
	return slices.Clone(b), nil
}

// SaveIdentity makes the identity of this node durable.
func (l *Log) SaveIdentity(identity []byte) error {
	// Durable before other nodes learn the id: after a crash, the node must not join as another member.
	b := l.db.NewBatch()
	defer b.Close()
	if err := b.Set(keyIdentity, identity, nil); err != nil {
		return fmt.Errorf("raftlog: save identity: %w", err)
	}
	if err := l.commit(b); err != nil {
		return fmt.Errorf("raftlog: save identity: %w", err)
	}
	return nil
}

// open is Open with a logger.
func open(dir string, fs vfs.FS, logger pebbleLogger) (*Log, error) {
	logger.failed = new(atomic.Pointer[error])
	guard := logguard.New(fs, func() bool { return logger.failed.Load() != nil }, logger.stop)
	// The log receives a few commands per second at most (ADR 22), so small tables and a small cache suffice.
	opts := &pebble.Options{FS: guard, Logger: logger, FormatMajorVersion: pebbleFormat,
		MemTableSize: 1 << 20, CacheSize: 1 << 20, MaxOpenFiles: 64,
		DisableTableStats: true} // a failed Open does not wait for their collection, and crashes
	opts.Experimental.CompactionScheduler = new(compaction.Scheduler)
	db, err := pebble.Open(dir, opts)
	if err != nil {
		return nil, fmt.Errorf("cluster: open metadata log: %w", guard.Named(err))
	}
	// Until here, failures of the log made Open fail. From now on they are reported to logger.stop.
	guard.Opened()
	l := &Log{db: db, memory: raft.NewMemoryStorage(), failed: logger.failed}
	if err := l.checkVersion(dir); err != nil {
		db.Close()
		return nil, err
	}
	if err := l.load(); err != nil {
		// The error of load is more informative than an error of Close.
		db.Close()
		return nil, fmt.Errorf("raftlog: load: %w", err)
	}
	return l, nil
}

// checkVersion refuses a log of another version, and adds the version to a log that has none.
func (l *Log) checkVersion(dir string) error {
	b, closer, err := l.db.Get(keyVersion)
	if errors.Is(err, pebble.ErrNotFound) {
		batch := l.db.NewBatch()
		defer batch.Close()
		if err := batch.Set(keyVersion, []byte{Version}, nil); err != nil {
			return fmt.Errorf("raftlog: write version: %w", err)
		}
		return l.commit(batch)
	}
	if err != nil {
		return fmt.Errorf("raftlog: read version: %w", err)
	}
	defer closer.Close()
	if len(b) != 1 || b[0] != Version {
		return fmt.Errorf("cluster: the metadata log in %s has version %x, this build of cqld reads version %d: start "+
			"the build that wrote it, or a newer one", dir, b, Version)
	}
	return nil
}

// load reads the log into memory in the order that MemoryStorage requires: the snapshot, the hard state, and the
// entries after the snapshot.
func (l *Log) load() error {
	snap := new(pb.Snapshot)
	// A node that has never compacted its log has no snapshot.
	if ok, err := l.get(keySnapshot, snap); err != nil {
		return err
	} else if ok {
		if err := l.memory.ApplySnapshot(snap); err != nil {
			return err
		}
	}
	hs := new(pb.HardState)
	if ok, err := l.get(keyHardState, hs); err != nil {
		return err
	} else if ok {
		if err := l.memory.SetHardState(hs); err != nil {
			return err
		}
	}
	// Save deletes the entries up to a snapshot in the same batch.
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: keyEntry(snap.GetMetadata().GetIndex() + 1),
		UpperBound: []byte{'e' + 1}})
	if err != nil {
		return err
	}
	defer it.Close()
	var entries []*pb.Entry
	// All entries are kept in memory: they are few and small, because the log is compacted regularly (ADR 22).
	for ok := it.First(); ok; ok = it.Next() {
		e := new(pb.Entry)
		if err := proto.Unmarshal(it.Value(), e); err != nil {
			return err
		}
		entries = append(entries, e)
	}
	if err := it.Error(); err != nil {
		return err
	}
	return l.memory.Append(entries)
}

// get decodes the message at a key, and reports whether there is one.
func (l *Log) get(key []byte, m proto.Message) (bool, error) {
	b, closer, err := l.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer closer.Close()
	return true, proto.Unmarshal(b, m)
}

// Empty reports whether this node has never participated in Raft.
func (l *Log) Empty() bool {
	// cs comes from the snapshot. A member without a snapshot has a hard state or entries.
	hs, cs, err := l.memory.InitialState()
	last, lerr := l.memory.LastIndex()
	// A node that has voted has a hard state, and a node that was added by others has voters: neither may bootstrap
	// again.
	return err == nil && lerr == nil && raft.IsEmptyHardState(hs) && len(cs.GetVoters()) == 0 && last == 0
}

// LastIndex returns the index of the last entry.
func (l *Log) LastIndex() uint64 {
	// MemoryStorage never returns an error here.
	last, err := l.memory.LastIndex()
	if err != nil {
		return 0
	}
	return last
}

// Save makes the contents of a Ready durable, and then visible to Raft.
func (l *Log) Save(rd *raft.Ready) error {
	// Checked before anything is written, because a wrong entry on disk would survive a restart.
	l.checkReady(rd)
	// One batch with one sync: after a crash, either all of the Ready or none of it is on disk.
	b := l.db.NewBatch()
	defer b.Close()
	if rd.HardState != nil && !raft.IsEmptyHardState(rd.HardState) {
		if err := set(b, keyHardState, rd.HardState); err != nil {
			return err
		}
	}
	if rd.Snapshot != nil && !raft.IsEmptySnap(rd.Snapshot) {
		// A snapshot from the leader removes all entries, including later ones, which do not follow it and were never
		// committed.
		if err := l.stageSnapshot(b, rd.Snapshot, math.MaxUint64-1); err != nil {
			return err
		}
	}
	if len(rd.Entries) > 0 {
		first := rd.Entries[0].GetIndex()
		// Entries of a new leader replace the uncommitted entries from this index on.
		if err := b.DeleteRange(keyEntry(first), []byte{'e' + 1}, nil); err != nil {
			return err
		}
		for _, e := range rd.Entries {
			if err := set(b, keyEntry(e.GetIndex()), e); err != nil {
				return err
			}
		}
	}
	// Many Readys contain only messages, or committed entries that are already saved.
	if b.Empty() {
		return nil
	}
	// After an error the log has failed, or the outcome of the batch is unknown. Memory is not updated, and the node
	// stops.
	if err := l.commit(b); err != nil {
		return err
	}
	// Only after the sync, because Raft may promise to other nodes what it reads from memory.
	return l.remember(rd)
}

// checkReady checks that rd continues what was saved before, because Raft has promised both to other nodes.
func (l *Log) checkReady(rd *raft.Ready) {
	// The entries must follow the saved ones, or replace their end.
	last := l.LastIndex()
	// Entries continue after the snapshot, whatever the log contained before.
	if rd.Snapshot != nil && !raft.IsEmptySnap(rd.Snapshot) {
		last = rd.Snapshot.GetMetadata().GetIndex()
	}
	for i, e := range rd.Entries {
		invariant.Check(e.GetIndex() > 0, "raftlog: an entry has no index")
		// The first entry may replace earlier ones, but must not leave a gap.
		invariant.Check(i > 0 || e.GetIndex() <= last+1, "raftlog: entry %d follows entry %d", e.GetIndex(), last)
		invariant.Check(i == 0 || e.GetIndex() == rd.Entries[i-1].GetIndex()+1, "raftlog: entries are not consecutive")
		invariant.Check(i == 0 || e.GetTerm() >= rd.Entries[i-1].GetTerm(), "raftlog: the terms of entries go back")
		last = max(last, e.GetIndex())
	}
	if rd.HardState == nil || raft.IsEmptyHardState(rd.HardState) {
		return
	}
	// If the term decreased, this node could vote twice in one term.
	if old, _, err := l.memory.InitialState(); err == nil {
		invariant.Check(rd.HardState.GetTerm() >= old.GetTerm(), "raftlog: the term goes back")
		invariant.Check(rd.HardState.GetCommit() >= old.GetCommit(), "raftlog: the commit index goes back")
	}
	invariant.Check(rd.HardState.GetCommit() <= last, "raftlog: entry %d is committed, the last one is %d",
		rd.HardState.GetCommit(), last)
}

// commit makes a batch durable. After an error, it may or may not be durable.
func (l *Log) commit(b *pebble.Batch) error {
	err := b.Commit(pebble.Sync)
	// Pebble continues after a failed write or sync, so a later success proves nothing.
	if f := l.failed.Load(); err == nil && f != nil {
		err = *f
	}
	return err
}

// remember makes saved data visible to Raft, in the same order as load.
func (l *Log) remember(rd *raft.Ready) error {
	if rd.Snapshot != nil && !raft.IsEmptySnap(rd.Snapshot) {
		if err := l.memory.ApplySnapshot(rd.Snapshot); err != nil {
			return err
		}
	}
	if rd.HardState != nil && !raft.IsEmptyHardState(rd.HardState) {
		if err := l.memory.SetHardState(rd.HardState); err != nil {
			return err
		}
	}
	return l.memory.Append(rd.Entries)
}

// stageSnapshot adds a snapshot, and the deletion of the entries up to upTo, to a batch.
func (l *Log) stageSnapshot(b *pebble.Batch, snap *pb.Snapshot, upTo uint64) error {
	if err := set(b, keySnapshot, snap); err != nil {
		return err
	}
	return b.DeleteRange(keyEntry(0), keyEntry(upTo+1), nil)
}

// Compact replaces the log up to index by a snapshot of state. The last keep entries stay in memory, for followers that
// are slightly behind.
func (l *Log) Compact(index uint64, conf *pb.ConfState, state []byte, keep uint64) error {
	// It fails if index is not after the last snapshot.
	snap, err := l.memory.CreateSnapshot(index, conf, state)
	if err != nil {
		return err
	}
	b := l.db.NewBatch()
	defer b.Close()
	if err := l.stageSnapshot(b, snap, index); err != nil {
		return err
	}
	if err := l.commit(b); err != nil {
		return err
	}
	// On disk, all entries up to index are deleted. The entries kept in memory are lost when the process ends;
	// followers then receive the snapshot.
	if first, err := l.memory.FirstIndex(); err == nil && index > keep && index-keep >= first {
		return l.memory.Compact(index - keep)
	}
	return nil
}

// set adds a message to a batch, which copies it.
func set(b *pebble.Batch, key []byte, m proto.Message) error {
	v, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	return b.Set(key, v, nil)
}

// Close closes the database. The log must not be used afterwards.
func (l *Log) Close() error { return l.db.Close() }
