package cluster

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// presentStorage is the log as Raft reads it. A snapshot that it sends to a follower is of the present: the
// one that the log was last compacted to may be from before that follower's time, and Raft ignores a
// snapshot in whose membership it is not. It would be sent again and again, and nobody could join a cluster
// whose log was ever compacted.
type presentStorage struct {
	*raft.MemoryStorage
	d *driver
}

// Snapshot implements raft.Storage. It is called by the loop.
func (s presentStorage) Snapshot() (*pb.Snapshot, error) {
	last, err := s.MemoryStorage.Snapshot()
	if err != nil || s.d.applied <= last.GetMetadata().GetIndex() || s.d.conf == nil {
		return last, err
	}
	index := s.d.applied
	term, err := s.Term(index)
	if err != nil {
		return nil, err
	}
	data, err := s.d.c.Metadata().encode()
	if err != nil {
		return nil, err
	}
	return &pb.Snapshot{Data: data, Metadata: &pb.SnapshotMetadata{ConfState: s.d.conf, Index: &index, Term: &term}}, nil
}
