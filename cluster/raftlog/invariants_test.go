package raftlog

import (
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"cqld/internal/invariant/invarianttest"
)

// TestInvariantsFire saves entries and states that do not continue a log of three entries in term 2, two of them
// committed.
func TestInvariantsFire(t *testing.T) {
	l, err := Open("raft", vfs.NewMem(), slog.New(slog.DiscardHandler), func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	state := func(term, commit uint64) *pb.HardState { return &pb.HardState{Term: &term, Commit: &commit} }
	entry := func(index, term uint64) *pb.Entry { return &pb.Entry{Index: &index, Term: &term} }
	if err := l.Save(&raft.Ready{HardState: state(2, 2),
		Entries: []*pb.Entry{entry(1, 1), entry(2, 2), entry(3, 2)}}); err != nil {
		t.Fatal(err)
	}
	for name, rd := range map[string]*raft.Ready{
		"no index":        {Entries: []*pb.Entry{entry(0, 2)}},
		"gap":             {Entries: []*pb.Entry{entry(5, 2)}},
		"not consecutive": {Entries: []*pb.Entry{entry(4, 2), entry(6, 2)}},
		"terms go back":   {Entries: []*pb.Entry{entry(4, 3), entry(5, 2)}},
		"term goes back":  {HardState: state(1, 2)},
		"commit back":     {HardState: state(2, 1)},
		"commit ahead":    {HardState: state(2, 4)},
	} {
		t.Run(name, func(t *testing.T) { invarianttest.Fires(t, func() { _ = l.Save(rd) }, "") })
	}
}
