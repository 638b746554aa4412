package cluster

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// presentStorage is the log as Raft reads it. It returns snapshots of the present state: the snapshot of the last
// compaction may be older than a follower's admission, and Raft ignores a snapshot whose membership does not contain
// the follower. It would be sent repeatedly, and no node could join a cluster whose log was ever compacted.
type presentStorage struct {
	*raft.MemoryStorage
	d *driver
}

// Snapshot implements raft.Storage. The loop calls it.
func (s presentStorage) Snapshot() (*pb.Snapshot, error) {
	last, err := s.MemoryStorage.Snapshot()
	// Nothing was applied since the compaction: its snapshot is the present one.
	if err != nil || s.d.applied <= last.GetMetadata().GetIndex() || s.d.conf == nil {
		return last, err
	}
	index := s.d.applied
	// The entry is in the log, because it was applied after the compaction.
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
