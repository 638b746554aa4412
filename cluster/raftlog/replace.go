package raftlog

import (
	"fmt"
	"math"

	pb "go.etcd.io/raft/v3/raftpb"
)

// Contents are everything that a log stores.
type Contents struct {
	Identity []byte        // nil in a log that was never used
	Hard     *pb.HardState // empty if the node never participated
	Snapshot *pb.Snapshot  // empty if the log was never compacted
	Entries  []*pb.Entry   // those after the snapshot
}

// Contents returns what the log stores.
func (l *Log) Contents() (c Contents, err error) {
	if c.Identity, err = l.Identity(); err != nil {
		return c, err
	}
	// MemoryStorage returns no errors for what it contains.
	if c.Hard, _, err = l.memory.InitialState(); err != nil {
		return c, err
	}
	if c.Snapshot, err = l.memory.Snapshot(); err != nil {
		return c, err
	}
	first, err := l.memory.FirstIndex()
	if last := l.LastIndex(); err == nil && last >= first {
		c.Entries, err = l.memory.Entries(first, last+1, math.MaxUint64)
	}
	return c, err
}

// Replace makes c the contents of the log, which must not have entries, with one sync: after a crash, the log has the
// old contents or c. It is for recoveries: the node is stopped, and the log must be closed afterwards.
func (l *Log) Replace(c Contents) error {
	b := l.db.NewBatch()
	defer b.Close()
	if err := b.Set(keyIdentity, c.Identity, nil); err != nil {
		return fmt.Errorf("raftlog: replace: %w", err)
	}
	if err := set(b, keyHardState, c.Hard); err != nil {
		return fmt.Errorf("raftlog: replace: %w", err)
	}
	// All entries precede the snapshot and are deleted.
	if err := l.stageSnapshot(b, c.Snapshot, math.MaxUint64-1); err != nil {
		return fmt.Errorf("raftlog: replace: %w", err)
	}
	if err := l.commit(b); err != nil {
		return fmt.Errorf("raftlog: replace: %w", err)
	}
	return nil
}
