package cluster

import (
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// CutLog makes the log of a node that does not run know of no decision after index, as it was when the node had heard that
// far: what comes behind is on its disk, undecided. first is the least index that is possible. It is for tests of what a
// node does with every beginning of a log.
func CutLog(dir string, fs vfs.FS, index uint64) (first uint64, err error) {
	l, err := openRaftLog(dir, fs, pebbleLogger{log: slog.New(slog.DiscardHandler), fatal: func(error) {}})
	if err != nil {
		return 0, err
	}
	snap, err := l.memory.Snapshot()
	if err == nil {
		first = max(snap.GetMetadata().GetIndex(), 1)
	}
	hs := new(pb.HardState)
	if err == nil {
		_, err = l.get(keyHardState, hs)
	}
	if err == nil && index >= first && index < hs.GetCommit() {
		hs.Commit = proto.Uint64(index)
		b := l.db.NewBatch()
		if err = set(b, keyHardState, hs); err == nil {
			err = l.commit(b)
		}
		_ = b.Close() // it was committed, or is given up
	}
	if closed := l.close(); err == nil {
		err = closed
	}
	if err != nil {
		return 0, fmt.Errorf("cluster: cut the log: %w", err)
	}
	return first, nil
}
