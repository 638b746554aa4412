package counters

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cqld/coordinator"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
)

// newLeading returns the machine of a group of two updates of the rows a and b. Deletions read nothing.
func newLeading(deletions bool) *leading {
	g := &leading{}
	for _, clustering := range []string{"a", "b"} {
		u, r := newLedUpdate("k", ring.Quorum), row.NewRow()
		if r.Clustering = []byte(clustering); deletions {
			r.Deletion = row.Deletion{Timestamp: 1, LocalTime: 1}
		} else {
			r.Cells = []row.Cell{{Column: 1, Value: wire.AppendInt64(nil, 1)}}
		}
		u.Mutation.AddRow(r)
		g.updates = append(g.updates, u)
	}
	return g
}

// shardPage returns a page with one row, after which there may be more.
func shardPage(clustering string, more bool) []byte {
	w := row.NewPageWriter(nil)
	w.Partition(row.NewPartitionKey([]byte("k")), row.NewRow(), nil)
	r := row.NewRow()
	r.Clustering = []byte(clustering)
	r.Cells = []row.Cell{{Column: 1, Timestamp: 5, Path: []byte("12345678"), Value: wire.AppendInt64(nil, 1)}}
	w.Row(r)
	w.EndPartition()
	return w.Finish(more)
}

// groupEventOf returns an event by its name in scripts.
func groupEventOf(g *leading, name string) (ev groupEvent, ok bool) {
	failure := errors.New("disk")
	ev, ok = map[string]groupEvent{
		"begin":        {},
		"page":         {kind: groupRead, page: shardPage("a", true)},
		"last":         {kind: groupRead, page: shardPage("b", false)},
		"bad page":     {kind: groupRead, page: []byte{9}},
		"unreadable":   {kind: groupRead, err: failure},
		"applied":      {kind: groupApplied},
		"alone":        {kind: groupApplied, alone: true},
		"read-only":    {kind: groupApplied, err: failure},
		"replicated":   {kind: groupReplicated},
		"too few":      {kind: groupReplicated, err: &coordinator.WriteTimeout{}, blockFor: 2},
		"too few live": {kind: groupReplicated, err: &coordinator.Unavailable{}, blockFor: 2},
		"panics":       {kind: groupFailed, err: failure},
	}[name]
	ev.cmd = g.cmd
	return ev, ok
}

// TestStepsOfAGroup checks the effects of each event.
func TestStepsOfAGroup(t *testing.T) {
	const written = "begin -> ask\nlast -> apply\n"
	const replicated = written + "applied -> replicate, pass\n"
	for name, test := range map[string]struct {
		lines string
		set   func(*leading)
	}{
		"counted":   {lines: replicated + "replicated -> answer 2 <nil>"},
		"two pages": {lines: "begin -> ask\npage -> ask\nlast -> apply\nalone -> answer 2 <nil>, pass"},
		"deletions": {lines: "begin -> apply\nalone -> answer 2 <nil>, pass",
			set: func(g *leading) { *g = *newLeading(true) }},
		"the only replica":    {lines: written + "alone -> answer 2 <nil>, pass"},
		"the read fails":      {lines: "begin -> ask\nunreadable -> answer 2 *errors.errorString, pass\nlast ->"},
		"the page is damaged": {lines: "begin -> ask\nbad page -> answer 2 *errors.errorString, pass"},
		"the write fails":     {lines: written + "read-only -> answer 2 *errors.errorString, pass\napplied ->"},
		"too few answers":     {lines: replicated + "too few -> answer 2 *coordinator.WriteTimeout"},
		"counted here only":   {lines: replicated + "too few live -> note, answer 2 *coordinator.WriteTimeout"},
		"an outcome twice": {lines: replicated + "applied ->\nreplicated -> answer 2 <nil>\n" +
			"replicated ->\ntoo few ->"},
		"a page twice":       {lines: written + "last ->\napplied -> replicate, pass"},
		"an outcome early":   {lines: "begin -> ask\napplied ->\nreplicated ->\nlast -> apply\nreplicated ->"},
		"a panic":            {lines: "begin -> ask\npanics -> answer 2 *errors.errorString\nlast ->\npanics ->"},
		"a panic in a write": {lines: replicated + "panics -> answer 2 *errors.errorString\nreplicated ->"},
		"an invalid addition": {lines: "begin -> answer 3 *coordinator.ReplicaFailure, pass", set: func(g *leading) {
			u, r := newLedUpdate("k", ring.Quorum), row.NewRow()
			r.Clustering, r.Cells = []byte("c"), []row.Cell{{Column: 1, Value: []byte("short")}}
			u.Mutation.AddRow(r)
			g.updates = append(g.updates, u)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newLeading(false)
			if test.set != nil {
				test.set(g)
			}
			for line := range strings.Lines(test.lines) {
				event, want, _ := strings.Cut(line, "->")
				ev, ok := groupEventOf(g, strings.TrimSpace(event))
				if !ok {
					t.Fatalf("unknown event %s", line)
				}
				out := g.step(&ev, nil)
				g.check()
				if got := groupEffectsText(out); got != strings.TrimSpace(want) {
					t.Errorf("%s-> %s, want %s", event, got, strings.TrimSpace(want))
				}
			}
		})
	}
}

// groupEffectsText renders effects.
func groupEffectsText(out []groupEffect) string {
	var words []string
	for _, e := range out {
		text := [...]string{"ask", "apply", "replicate", "note", "answer", "pass"}[e.kind]
		if e.kind == groupAnswer {
			text += fmt.Sprintf(" %d %T", len(e.updates), e.err)
		}
		words = append(words, text)
	}
	return strings.Join(words, ", ")
}

// TestGroupsAnswerOnce delivers events in any order, some too early or twice. A group responds once, permits the next
// group once, replicates only what is on disk, and permits the next group only then or at its end.
func TestGroupsAnswerOnce(t *testing.T) {
	names := []string{"page", "last", "unreadable", "applied", "alone", "read-only", "replicated", "too few",
		"too few live", "panics"}
	ends := map[string]int{}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 5))
		g := newLeading(r.IntN(4) == 0)
		var kinds []groupEffectKind
		var applied bool
		for name := "begin"; g.state != groupOver || r.IntN(4) > 0; name = names[r.IntN(len(names))] {
			if name == "begin" && g.state != groupIdle {
				continue
			}
			ev, _ := groupEventOf(g, name)
			applied = applied || g.state == groupWriting && ev.kind == groupApplied && ev.err == nil
			before := g.state
			for _, e := range g.step(&ev, nil) {
				kinds = append(kinds, e.kind)
				if e.kind == groupReplicate && !applied {
					t.Fatalf("seed %d: replicated before it was on the disk", seed)
				}
				if e.kind == groupPass && g.state != groupReplicating && g.state != groupOver {
					t.Fatalf("seed %d: the next group begins in state %d", seed, g.state)
				}
			}
			g.check()
			if before != groupOver && g.state == groupOver {
				ends[name]++
			}
		}
		count := func(k groupEffectKind) (n int) {
			for _, x := range kinds {
				if x == k {
					n++
				}
			}
			return n
		}
		// After a panic, the shell permits the next group.
		if count(groupAnswer) != 1 || count(groupPass) > 1 || count(groupReplicate) > 1 ||
			count(groupPass) == 0 && slices.Contains(kinds, groupReplicate) {
			t.Fatalf("seed %d: effects %v", seed, kinds)
		}
	}
	for _, name := range []string{"unreadable", "alone", "read-only", "replicated", "too few", "too few live",
		"panics"} {
		if ends[name] < 20 {
			t.Errorf("%d groups end with %s: %v", ends[name], name, ends)
		}
	}
}
