package cluster

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"cqld/ring"
)

// TestMajorityExcludesFormerMember makes one of three voters leave, and stops it before it learns of its removal. One of the
// two remaining members is a voter too many; if it were removed instead of the former member, no majority would be left.
func TestMajorityExcludesFormerMember(t *testing.T) {
	first := newTestNode(t, 1).mustOpen()
	leaver := newTestNode(t, 2, first.addr)
	var deaf atomic.Bool
	deafen(leaver, &deaf)
	leaver.mustOpen()
	third := newTestNode(t, 3, first.addr).mustOpen()
	nodes := []*testNode{first, leaver, third}
	eventually(t, func() bool {
		return !slices.ContainsFunc(nodes, func(n *testNode) bool { v, _ := n.conf(); return v != 3 || !n.Alive(3) })
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	id, err := leaver.Decommission(ctx, false)
	if err != nil || id == 0 {
		t.Fatal(id, err)
	}
	eventually(t, func() bool {
		return !slices.ContainsFunc(nodes, func(n *testNode) bool { return n.Metadata().Topology.Operation(id) == nil })
	})
	deaf.Store(true)
	first.StartHanded(id, func(error) {})
	eventually(t, func() bool { return first.Metadata().removedAt(leaver.Self()) != 0 })
	eventually(t, func() bool { v, _ := first.conf(); return v < 3 })
	leaver.stop()
	short, end := context.WithTimeout(ctx, 30*time.Second)
	defer end()
	if _, err := first.Move(short, []ring.Token{1, 2, 3}); err != nil {
		t.Fatalf("the ring decides nothing: %v", err)
	}
	eventually(t, func() bool { v, l := first.conf(); return v == 1 && l == 1 })
}

// TestFewerVoters checks that dead voters are removed first, then the youngest, and never the leader.
func TestFewerVoters(t *testing.T) {
	for _, c := range []struct {
		voting []uint64
		most   int
		keep   uint64
		dead   []uint64
		want   []uint64
	}{
		{[]uint64{1}, 1, 1, nil, []uint64{1}},
		{[]uint64{1, 3}, 1, 1, nil, []uint64{1}},
		{[]uint64{1, 3}, 1, 3, nil, []uint64{3}},
		{[]uint64{4, 2, 3, 1}, 3, 1, nil, []uint64{2, 3, 1}},
		{[]uint64{4, 2, 3, 1}, 3, 1, []uint64{2}, []uint64{4, 3, 1}},
		{[]uint64{4, 2, 3, 1}, 3, 4, []uint64{2, 3}, []uint64{4, 2, 1}},
		{[]uint64{1, 2, 3, 4, 5}, 3, 5, []uint64{1}, []uint64{2, 3, 5}},
		{[]uint64{1, 2, 3}, 5, 1, []uint64{3}, []uint64{1, 2, 3}},
	} {
		got := fewerVoters(c.voting, c.most, c.keep, func(id uint64) bool { return !slices.Contains(c.dead, id) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%v vote, %v are dead, %d is kept of %d: %v, want %v", c.voting, c.dead, c.keep, c.most, got, c.want)
		}
	}
}
