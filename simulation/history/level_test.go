package history

import (
	"fmt"
	"slices"
	"testing"

	"cqld/ring"
)

// TestLevelsMeet compares LevelAt.Overlaps with all sets of replicas that may have answered.
func TestLevelsMeet(t *testing.T) {
	for _, r := range []ring.Replication{
		{Class: ring.Simple, Factor: 1}, {Class: ring.Simple, Factor: 3}, {Class: ring.Simple, Factor: 4},
		datacenters(2, 1), datacenters(3, 2),
		datacenters(1, 1, 1),
	} {
		for _, a := range WriteLevels() {
			for _, b := range ReadLevels() {
				for _, dc := range []string{"dc1", "dc2"} {
					x, y := LevelAt{a, "dc1"}, LevelAt{b, dc}
					if r.Total() < a.BlockFor(r, "dc1") || r.Total() < b.BlockFor(r, dc) || r.Class == ring.Simple &&
						dc != "dc1" {
						continue // never enough replicas
					}
					if got, want := x.Overlaps(y, r), !apart(x, y, r); got != want {
						t.Errorf("%v: %s and %s of %s meet: %v, want %v", r, a, b, dc, got, want)
					}
				}
			}
		}
	}
}

// apart reports whether there are disjoint sets of replicas that satisfy the levels.
func apart(a, b LevelAt, r ring.Replication) bool {
	var of []string // the data centers of the replicas
	for _, f := range r.Datacenters {
		of = append(of, slices.Repeat([]string{f.Datacenter}, f.Factor)...)
	}
	if r.Class == ring.Simple {
		of = slices.Repeat([]string{"dc1"}, r.Factor)
	}
	for set := range 1 << len(of) {
		if satisfies(a, r, of, set) && satisfies(b, r, of, 1<<len(of)-1-set) {
			return true
		}
	}
	return false
}

// satisfies reports whether the answers of a set of replicas satisfy a level.
func satisfies(a LevelAt, r ring.Replication, of []string, set int) bool {
	in, all := map[string]int{}, 0
	for i, dc := range of {
		if set>>i&1 == 1 {
			in[dc]++
			all++
		}
	}
	switch {
	case a.Level == ring.Any:
		return true
	case r.Class == ring.Simple:
		return all >= a.Level.BlockFor(r, a.Datacenter)
	case a.Level == ring.EachQuorum:
		return !slices.ContainsFunc(r.Datacenters, func(f ring.DatacenterFactor) bool {
			return in[f.Datacenter] < ring.QuorumOf(f.Factor)
		})
	case a.Level.IsLocal():
		return in[a.Datacenter] >= a.Level.BlockFor(r, a.Datacenter)
	}
	return all >= a.Level.BlockFor(r, a.Datacenter)
}

// datacenters returns a replication with these factors.
func datacenters(factors ...int) ring.Replication {
	var all []ring.DatacenterFactor
	for i, f := range factors {
		all = append(all, ring.DatacenterFactor{Datacenter: fmt.Sprint("dc", i+1), Factor: f})
	}
	return ring.NewNetworkTopology(all...)
}

// TestLevelsAreJudged passes reads to the checker after a write at QUORUM, another at ONE, and a deletion that was
// refused.
func TestLevelsAreJudged(t *testing.T) {
	for _, x := range []struct {
		level ring.Consistency
		found int64
		may   bool
	}{
		{ring.Quorum, 10, true}, {ring.Quorum, 20, true}, {ring.Quorum, 0, false}, {ring.Quorum, 15, false},
		{ring.One, 0, true}, {ring.All, 20, true}, {ring.All, 10, false}, {ring.All, 0, false},
	} {
		h := &Levels{Replication: ring.Replication{Class: ring.Simple, Factor: 3}, Calls: []*LevelCall{
			{Stamp: 10, Level: LevelAt{ring.Quorum, "dc1"}, Call: 1, Returned: 2},
			{Stamp: 20, Level: LevelAt{ring.One, "dc1"}, Call: 3, Returned: 4},
			{Stamp: 30, Level: LevelAt{ring.All, "dc1"}, Deletion: true, Call: 5, Dropped: true},
		}}
		at := LevelAt{x.level, "dc1"}
		violation := h.Judge(at, 6, x.found, h.Least(at, false), func() int64 { return 7 })
		if may := violation == ""; may != x.may {
			t.Errorf("a read of %d at %s: may be %v, want %v: %s", x.found, x.level, may, x.may, violation)
		}
	}
}
