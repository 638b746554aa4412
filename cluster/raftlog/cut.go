package raftlog

import (
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Cut lowers the commit index of a stopped node's log to index, as if the node had not learned of later commits. Later
// entries stay on disk, uncommitted. first is the lowest possible index. Cut is for tests that start a node at every
// prefix of its log.
func Cut(dir string, fs vfs.FS, index uint64) (first uint64, err error) {
	l, err := Open(dir, fs, slog.New(slog.DiscardHandler), func(error) {})
	if err != nil {
		return 0, err
	}
	// Entries up to the snapshot no longer exist, so the commit index cannot be lower.
	snap, err := l.memory.Snapshot()
	if err == nil {
		first = max(snap.GetMetadata().GetIndex(), 1)
	}
	hs := new(pb.HardState)
	if err == nil {
		_, err = l.get(keyHardState, hs)
	}
	// Only the commit index changes. Raft allows a node to lag in its knowledge of commits, and it catches up.
	if err == nil && index >= first && index < hs.GetCommit() {
		hs.Commit = proto.Uint64(index)
		b := l.db.NewBatch()
		if err = set(b, keyHardState, hs); err == nil {
			err = l.commit(b)
		}
		_ = b.Close() // it was committed or abandoned
	}
	// Always closed; an earlier error takes precedence.
	if closed := l.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return 0, fmt.Errorf("raftlog: cut: %w", err)
	}
	return first, nil
}
