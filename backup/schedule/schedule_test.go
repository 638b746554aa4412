package schedule

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// day is midnight of a day.
var day = time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)

// at returns a time of that day, and before or after it.
func at(h float64) time.Time { return day.Add(time.Duration(h * float64(time.Hour))) }

// TestTimesOfBackups compares the last time for a backup before a moment.
func TestTimesOfBackups(t *testing.T) {
	for _, test := range []struct {
		every, at time.Duration
		now, want time.Time
	}{
		{24 * time.Hour, 2 * time.Hour, at(1.9), at(-22)},
		{24 * time.Hour, 2 * time.Hour, at(2), at(2)},
		{6 * time.Hour, 2 * time.Hour, at(1), at(-4)},
		{6 * time.Hour, 0, at(17), at(12)},
		{time.Minute, 0, at(0).Add(59 * time.Second), at(0)},
		{24 * time.Hour, 23 * time.Hour, time.Unix(0, 0), time.Unix(0, 0).Add(-time.Hour)},
	} {
		s := &Schedule{Every: test.every, At: test.at}
		if got := s.Latest(test.now); !got.Equal(test.want) {
			t.Errorf("every %v at %v: the last before %v is %v, want %v", test.every, test.at, test.now, got, test.want)
		}
	}
}

// TestDecisions compares what a schedule does in several states.
func TestDecisions(t *testing.T) {
	good := func(hours ...float64) (made []Made) {
		for _, h := range hours {
			made = append(made, Made{BackupName("s", at(h)), at(h), true})
		}
		return made
	}
	bad := func(h float64) Made { return Made{BackupName("s", at(h)), at(h), false} }
	names := func(made []Made) (names []string) {
		for _, m := range made {
			names = append(names, m.Name)
		}
		return names
	}
	s := Schedule{Every: 6 * time.Hour, Keep: 2, Created: at(1)}
	for what, test := range map[string]struct {
		schedule Schedule
		state    State
		now      time.Time
		want     Action
	}{
		"before the first time":   {s, State{}, at(5), Action{}},
		"the first time":          {s, State{}, at(6), Action{Make: at(6)}},
		"while a backup is made":  {s, State{Running: true}, at(7), Action{}},
		"after the backup":        {s, State{Made: good(6)}, at(11.9), Action{}},
		"several missed times":    {s, State{Made: good(6)}, at(40), Action{Make: at(36)}},
		"soon after a failure":    {s, State{Failures: 1, Failed: at(6)}, at(6.01), Action{}},
		"a minute after it":       {s, State{Failures: 1, Failed: at(6)}, at(6.02), Action{Make: at(6)}},
		"after many failures":     {s, State{Failures: 90, Failed: at(6)}, at(6.49), Action{}},
		"half an hour after them": {s, State{Failures: 90, Failed: at(6)}, at(6.5), Action{Make: at(6)}},
		"a clock that went back":  {s, State{Made: good(30)}, at(13), Action{}},
		"an incomplete attempt":   {s, State{Made: []Made{bad(6)}}, at(7), Action{Make: at(6)}},
		"more than are kept":      {s, State{Made: good(12, 18, 6)}, at(19), Action{Delete: names(good(6))}},
		"during failures": {s, State{Made: good(6, 12, 18), Failures: 2, Failed: at(24)}, at(24.01),
			Action{Delete: names(good(6))}},
		"an attempt that was replaced": {s, State{Made: append(good(12), bad(6))}, at(13),
			Action{Delete: []string{bad(6).Name}}},
		"an attempt after the last one": {s, State{Made: append(good(6), bad(12)), Failures: 1, Failed: at(12)}, at(12),
			Action{}},
		"a time to be kept": {Schedule{Every: 6 * time.Hour, KeepFor: 10 * time.Hour, Created: at(1)},
			State{Made: good(6, 12, 18)}, at(22), Action{Delete: names(good(12, 6))}},
		"both bounds": {Schedule{Every: 6 * time.Hour, Keep: 2, KeepFor: 5 * time.Hour, Created: at(1)},
			State{Made: good(6, 12, 18)}, at(22), Action{Delete: names(good(6))}},
		"the last one is never deleted": {Schedule{Every: 300 * time.Hour, KeepFor: time.Hour, Created: at(-900)},
			State{Made: good(0)}, at(100), Action{}},
		"all are kept": {Schedule{Every: 6 * time.Hour, Created: at(1)}, State{Made: good(6, 12, 18)}, at(22),
			Action{}},
	} {
		if got := Decide(&test.schedule, &test.state, test.now); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", what, got, test.want)
		}
	}
}

// node is a node of a random walk, with its knowledge of the store.
type node struct {
	state  State
	listed bool
	making time.Time
}

// TestNodesShareASchedule lets two nodes execute a schedule for random times, with failures, restarts and a store that
// has the backups. One or both nodes may consider themselves responsible. No backup is made twice or without a time,
// the last good one is never deleted, and in the end the schedule has what it keeps.
func TestNodesShareASchedule(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := &Schedule{Every: time.Duration(1+random.IntN(90)) * time.Minute, Keep: random.IntN(4), Created: day}
		if s.Keep == 0 {
			s.KeepFor = 3 * s.Every
		}
		store := map[time.Time]bool{} // the good ones
		nodes, now := [2]node{}, day
		for range 600 {
			now = now.Add(time.Duration(random.IntN(int(s.Every))) / 3)
			if random.IntN(100) == 0 {
				now = now.Add(time.Duration(random.IntN(5)) * s.Every) // all nodes are down
			}
			n := &nodes[0]
			if random.IntN(3) == 0 {
				n = &nodes[1]
			}
			if random.IntN(20) == 0 {
				*n = node{} // it restarts
			}
			walk(t, seed, s, n, store, now, random.IntN(4) == 0)
		}
		// One node remains, and nothing fails.
		last := node{}
		for range 5 {
			walk(t, seed, s, &last, store, now, false)
		}
		if !store[s.Latest(now)] && s.Latest(now).After(s.Created) {
			t.Errorf("seed %d: the backup of %v is missing", seed, s.Latest(now))
		}
		if s.Keep > 0 && len(store) > s.Keep {
			t.Errorf("seed %d: %d backups, %d are kept", seed, len(store), s.Keep)
		}
	}
}

// walk lets a node do one thing.
func walk(t *testing.T, seed uint64, s *Schedule, n *node, store map[time.Time]bool, now time.Time, fails bool) {
	if !n.making.IsZero() {
		// The same name: the second of two nodes finds the backup of the first.
		if n.state.Running = false; fails {
			n.state.Failures, n.state.Failed = n.state.Failures+1, now
		} else {
			store[n.making], n.state.Failures = true, 0
		}
		n.making, n.listed = time.Time{}, false
		return
	}
	if !n.listed {
		n.state.Made, n.listed = nil, true
		for at := range store {
			n.state.Made = append(n.state.Made, Made{BackupName("s", at), at, true})
		}
	}
	a := Decide(s, &n.state, now)
	if !a.Make.IsZero() {
		if a.Make.After(now) || !a.Make.After(s.Created) || a.Make.Sub(time.Unix(0, 0))%s.Every != 0 {
			t.Fatalf("seed %d: a backup for %v at %v", seed, a.Make, now)
		}
		n.making, n.state.Running = a.Make, true
	}
	for _, name := range a.Delete {
		newest := slices.MaxFunc(n.state.Made, func(a, b Made) int { return a.Time.Compare(b.Time) })
		if name == newest.Name {
			t.Fatalf("seed %d: the last good backup is deleted", seed)
		}
		for at := range store {
			if BackupName("s", at) == name {
				delete(store, at)
				n.listed = false
			}
		}
		if len(store) == 0 {
			t.Fatalf("seed %d: all backups were deleted", seed)
		}
	}
}

// TestNamesOfJobs parses names of jobs, also of operators and hostile ones.
func TestNamesOfJobs(t *testing.T) {
	cluster, name, made, ok := ParseJob(JobName("0a", "nightly", at(2)))
	if cluster != "0a" || name != "nightly" || !made.Equal(at(2)) || !ok {
		t.Errorf("%s %s %v %v", cluster, name, made, ok)
	}
	for _, job := range []string{"", "K3JQ", "schedule/", "schedule/a/b/c", "schedule/a/b/20261122T020000Z/d"} {
		if _, _, _, ok := ParseJob(job); ok {
			t.Errorf("%q is a job of a schedule", job)
		}
	}
	s, none := Schedule{Every: time.Hour, Created: at(0)}, State{}
	if s.Overdue(&none, at(2)) || !s.Overdue(&none, at(2.1)) {
		t.Error("a schedule without backups is overdue at the wrong time")
	}
}
