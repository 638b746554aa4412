package cluster

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// presentStorage is the log as Raft reads it. It returns snapshots of the current state: the snapshot of the last
// compaction may precede a follower's admission, and Raft ignores a snapshot whose membership does not include the
// follower. It would be sent again and again, and no node could join a cluster whose log had been compacted.
type presentStorage struct {
	*raft.MemoryStorage
	d *driver
}

// Snapshot implements raft.Storage. The loop calls it.
func (s presentStorage) Snapshot() (*pb.Snapshot, error) {
	last, err := s.MemoryStorage.Snapshot()
	// Nothing has been applied since the compaction, so its snapshot is current.
	if err != nil || s.d.applied <= last.GetMetadata().GetIndex() || s.d.conf == nil {
		return last, err
	}
	index := s.d.applied
	// The log has the entry, because it was applied after the compaction.
	term, err := s.Term(index)
	if err != nil {
		return nil, err
	}
	data, err := s.d.view.metadata().Encode()
	if err != nil {
		return nil, err
	}
	return &pb.Snapshot{Data: data, Metadata: &pb.SnapshotMetadata{ConfState: s.d.conf, Index: &index, Term: &term}},
		nil
}
