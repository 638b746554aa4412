package raftlog

import (
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// flipsFlag is for long runs by hand.
var flipsFlag = flag.Int("flips", 500, "bits that TestFlippedBitsOfTheRaftLog changes")

// rotContent returns the content of a log.
func rotContent(l *Log) (string, error) {
	hard, conf, err := l.memory.InitialState()
	if err != nil {
		return "", err
	}
	identity, err := l.Identity()
	if err != nil {
		return "", err
	}
	first, _ := l.memory.FirstIndex()
	last, err := l.memory.LastIndex()
	if err != nil {
		return "", err
	}
	var entries []*pb.Entry
	if last >= first {
		if entries, err = l.memory.Entries(first, last+1, 1<<30); err != nil {
			return "", err
		}
	}
	return fmt.Sprint(hard, conf, entries, string(identity)), nil
}

// TestFlippedBitsOfTheRaftLog changes one bit of one file of a log whose process was killed. The log does not open,
// with an error that names the file; or nothing has changed, except that the last write may be lost.
func TestFlippedBitsOfTheRaftLog(t *testing.T) {
	logger := pebbleLogger{log: slog.New(slog.DiscardHandler), fatal: func(error) {}}
	disk := vfs.NewCrashableMem()
	l, err := open("raft", disk, logger)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.SaveIdentity([]byte("identity")); err != nil {
		t.Fatal(err)
	}
	killed := func() *vfs.MemFS {
		return disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))})
	}
	content := func(disk vfs.FS) (string, error) {
		l, err := open("raft", disk, logger)
		if err != nil {
			return "", err
		}
		defer l.Close()
		return rotContent(l)
	}
	var states []string
	for step := range uint64(30) {
		term, vote, commit, index := 1+step/10, uint64(1), step, step+1
		if err := l.Save(&raft.Ready{HardState: &pb.HardState{Term: &term, Vote: &vote, Commit: &commit},
			Entries: []*pb.Entry{{Term: &term, Index: &index, Data: fmt.Appendf(nil, "entry %d", step)}}}); err != nil {
			t.Fatal(err)
		}
		state, err := content(killed())
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, state)
	}
	base := killed()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := base.List("raft")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	rng := rand.New(rand.NewPCG(3, 4))
	refused := 0
	for i := range *flipsFlag {
		mem, name := base.CrashClone(vfs.CrashCloneCfg{}), names[i%len(names)]
		at, bit, ok := flip(t, mem, mem.PathJoin("raft", name), rng)
		if !ok {
			continue
		}
		got, err := content(mem)
		switch {
		case err != nil && !strings.Contains(err.Error(), name):
			t.Errorf("%s, byte %d, bit %d: the error does not name it: %v", name, at, bit, err)
		case err != nil:
			refused++
		case !slices.Contains(states[len(states)-2:], got):
			t.Errorf("%s, byte %d, bit %d: %s, want %s", name, at, bit, got, states[len(states)-1])
		}
	}
	if refused == 0 {
		t.Error("no changed bit was found")
	}
}

// flip changes one bit of a file, unless it is empty.
func flip(t *testing.T, mem *vfs.MemFS, path string, rng *rand.Rand) (at int64, bit int, ok bool) {
	t.Helper()
	f, err := mem.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return 0, 0, false
	}
	at, bit = rng.Int64N(info.Size()), rng.IntN(8)
	b := make([]byte, 1)
	if _, err = f.ReadAt(b, at); err == nil {
		b[0] ^= 1 << bit
		_, err = f.WriteAt(b, at)
	}
	if err != nil {
		t.Fatal(err)
	}
	return at, bit, true
}
