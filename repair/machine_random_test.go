package repair

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/invariant"
	"cqld/paxos/acceptor"
	"cqld/ring"
	"cqld/row"
)

// chaos answers the effects of a machine in any order, from a model of three replicas: rows at the tokens 5, 15, …, 195
// with versions, and undecided proposals for partitions.
type chaos struct {
	*stepper
	seed      uint64
	rnd       *rand.Rand
	rows      [4][20]uint64   // by node and row
	proposals [4]map[int]bool // by node: rows whose partition has a proposal up to the low bound
	states    [4][20]bool     // by node: Paxos states
	open      []effect        // whose event has not come yet
	past      []event
	finished  []effect
}

func newChaos(t *testing.T, seed uint64) *chaos {
	c := &chaos{stepper: newStepper(t, 3), seed: seed, rnd: rand.New(rand.NewPCG(seed, 5))}
	c.rest = []ring.Range{{Start: 0, End: 100}, {Start: 100, End: 200}}
	c.limits.Attempts, c.limits.Rounds = 2+c.rnd.IntN(4), 5
	job := &c.m.job
	job.SkipDown, job.Urgent, c.m.mayRaise = c.chance(4), c.chance(8), c.chance(2)
	if c.chance(4) {
		job.Scope.Nodes = []ring.NodeID{1, 2, 3}[:2+c.rnd.IntN(2)]
	}
	if c.chance(2) {
		c.v.lowBound = c.now.UnixMicro() - c.rnd.Int64N(2)*time.Hour.Microseconds()*24
	}
	for node := 1; node <= 3; node++ {
		c.proposals[node] = map[int]bool{}
		for i := range c.rows[node] {
			if c.rows[node][i] = 1; c.chance(20) {
				c.rows[node][i] = 2
			}
			c.states[node][i] = c.v.lowBound > 0 && c.chance(3)
			if c.states[node][i] && c.chance(10) {
				c.proposals[node][i] = true
			}
		}
	}
	return c
}

// chance returns true once in n times.
func (c *chaos) chance(n int) bool { return c.rnd.IntN(n) == 0 }

func (c *chaos) fatalf(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf("seed %d: %s", c.seed, fmt.Sprintf(format, args...))
}

// send passes an event to the machine, and checks what its effects promise.
func (c *chaos) send(ev *event) {
	c.past = append(c.past, *ev)
	ev.now = c.now
	for _, e := range c.m.step(ev, nil) {
		//exhaustive:ignore
		switch e.kind {
		case effectNotify:
			c.checkNotice(&e)
		case effectPurge:
			c.checkForget(&e)
		case effectFinish:
			c.finished = append(c.finished, e)
		}
		if e.number != 0 {
			c.open = append(c.open, e)
		}
	}
	c.m.check()
}

// inside returns the rows in a range.
func inside(tokens ring.Range) (out []int) {
	for i := range 20 {
		if tokens.Contains(ring.Token(i*10 + 5)) {
			out = append(out, i)
		}
	}
	return out
}

// equal reports whether nodes have the same rows in a range.
func (c *chaos) equal(tokens ring.Range, nodes []ring.NodeID) bool {
	for _, i := range inside(tokens) {
		for _, node := range nodes {
			if c.rows[node][i] != c.rows[nodes[0]][i] {
				return false
			}
		}
	}
	return true
}

// checkNotice checks that a notice follows only when all replicas are equal, and that it permits the purge of
// tombstones only when no replica has Paxos state.
func (c *chaos) checkNotice(e *effect) {
	if e.notice.Tokens != c.m.unit.tokens || !c.equal(e.notice.Tokens, []ring.NodeID{1, 2, 3}) {
		c.fatalf("a notice of %v, and the replicas differ", e.notice.Tokens)
	}
	for node := 1; node <= 3 && e.notice.Until != 0; node++ {
		for _, i := range inside(e.notice.Tokens) {
			if c.states[node][i] {
				c.fatalf("tombstones of %v may be purged, and node %d has Paxos state", e.notice.Tokens, node)
			}
		}
	}
}

// checkForget checks that Paxos states are removed only when no proposal is undecided, and all replicas are equal.
func (c *chaos) checkForget(e *effect) {
	if !e.purge.Forget {
		return
	}
	for node := 1; node <= 3; node++ {
		for _, i := range inside(e.purge.Tokens) {
			if c.proposals[node][i] {
				c.fatalf("states of %v are removed, and node %d has a proposal", e.purge.Tokens, node)
			}
		}
	}
	if !c.equal(e.purge.Tokens, []ring.NodeID{1, 2, 3}) {
		c.fatalf("states of %v are removed, and the replicas differ", e.purge.Tokens)
	}
}

// answer returns the event of an effect.
func (c *chaos) answer(e *effect) *event {
	ev := &event{number: e.number}
	mayFail := e.kind != effectPause && e.kind != effectSpend && e.kind != effectLoad
	if mayFail && (c.chance(25) || e.kind == effectNotify && c.chance(3)) {
		ev.err = errors.New("disk")
		if ev.truncating = c.chance(3); c.chance(3) {
			ev.err = &coordinator.NotReplica{}
		}
	}
	//exhaustive:ignore
	switch e.kind {
	case effectLoad:
		ev.kind, ev.rest = eventLoaded, c.rest
	case effectScan:
		ev.kind, ev.conditional = eventScanned, c.chance(2)
	case effectRaise:
		if ev.kind, ev.err = eventRaised, nil; c.chance(2) {
			c.v.lowBound = e.micros
		}
	case effectPause, effectSpend:
		ev.kind = eventResumed
	case effectHash:
		ev.kind = eventHashed
		c.hash(e, ev)
	case effectRead:
		if ev.kind, ev.more = eventRead, c.chance(3); ev.err == nil && !ev.more {
			c.merge(e)
		}
	case effectPurge:
		if ev.kind = eventPurged; ev.err == nil {
			c.purgeStates(e, ev)
		}
	case effectSettle:
		if ev.kind = eventSettled; ev.err == nil {
			var i int
			_, _ = fmt.Sscan(string(e.key.Bytes), &i)
			for node := 1; node <= 3; node++ {
				c.rows[node][i] = 3
				delete(c.proposals[node], i)
			}
		}
	case effectNotify:
		ev.kind = eventNoticed
	}
	return ev
}

// hash hashes at most three rows of a node in one step.
func (c *chaos) hash(e *effect, ev *event) {
	s := HashStep{Size: 350, Scanned: 10}
	after := -1
	if e.hash.After != nil {
		after = int(e.hash.After[0])
	}
	for leaf := range e.hash.Leaves {
		for _, i := range inside(e.hash.Tokens.Part(leaf, e.hash.Leaves)) {
			if i <= after || s.Next != nil {
				continue
			}
			if len(s.Leaves) == 3 {
				s.Next = []byte{byte(after)}
				continue
			}
			after = i
			h := LeafHash{Sum: [2]uint64{c.rows[e.node][i] << i, 0}, Rows: 1}
			s.Leaves, s.Hashes = append(s.Leaves, leaf), append(s.Hashes, h)
		}
	}
	ev.hashes = s
}

// merge makes the replicas that a read reads equal.
func (c *chaos) merge(e *effect) {
	nodes := e.only
	if nodes == nil {
		nodes = []ring.NodeID{1, 2, 3}
	}
	for _, i := range inside(e.leaf.Tokens) {
		latest := uint64(0)
		for _, node := range nodes {
			latest = max(latest, c.rows[node][i])
		}
		for _, node := range nodes {
			c.rows[node][i] = latest
		}
	}
}

// purgeStates lists the proposals of a node, and removes its states if that was requested.
func (c *chaos) purgeStates(e *effect, ev *event) {
	ev.purged = acceptor.PurgeStep{}
	for _, i := range inside(e.purge.Tokens) {
		if c.proposals[e.node][i] {
			ev.purged.Unsettled = append(ev.purged.Unsettled, row.NewPartitionKey([]byte(fmt.Sprint(i))))
		}
		if e.purge.Forget && c.states[e.node][i] {
			c.states[e.node][i] = false
			ev.purged.Forgotten++
		}
	}
}

// run answers effects until the job has ended. It repeats events, lets replicas die, and cancels.
func (c *chaos) run() {
	c.send(&event{kind: eventStarted})
	for n := 0; len(c.finished) == 0; n++ {
		if len(c.open) == 0 || n > 5000 {
			c.fatalf("nothing happens after %d events", n)
		}
		c.now = c.now.Add(time.Second)
		switch {
		case c.chance(10):
			again := c.past[c.rnd.IntN(len(c.past))]
			if again.kind != eventStarted {
				c.send(&again)
			}
			continue
		case c.chance(500):
			c.send(&event{kind: eventCancelled})
			continue
		}
		c.v.dead[3] = c.chance(30)
		i := c.rnd.IntN(len(c.open))
		e := c.open[i]
		c.open = slices.Delete(c.open, i, i+1)
		c.send(c.answer(&e))
	}
	for _, e := range c.open { // late answers
		c.send(c.answer(&e))
	}
	c.checkEnd()
}

// checkEnd checks the guarantee of a successful job: the replicas in its scope are equal in each range that it has not
// skipped.
func (c *chaos) checkEnd() {
	if len(c.finished) != 1 {
		c.fatalf("the job ends %d times", len(c.finished))
	}
	e := &c.finished[0]
	if e.err != nil {
		return
	}
	nodes := c.m.job.Scope.Of(c.v.topology, []ring.NodeID{1, 2, 3})
	done := 0
	for _, r := range c.rest {
		if c.equal(r, nodes) {
			done++
		}
	}
	if done < e.report.RangesDone || e.report.RangesDone+e.report.Skipped != len(c.rest) {
		c.fatalf("%d ranges are equal: %+v", done, e.report)
	}
}

// TestEventsInAnyOrder answers the effects of jobs in random orders, with failures, refusals, truncations, late answers
// and answers that come twice. The invariants hold after each step, each job ends, and it keeps its promises.
func TestEventsInAnyOrder(t *testing.T) {
	seeds := uint64(1500)
	if testing.Short() || invariant.Enabled {
		seeds = 300
	}
	ends := map[string]int{}
	for seed := range seeds {
		c := newChaos(t, seed)
		c.run()
		e := &c.finished[0]
		ends[fmt.Sprintf("%T", e.err)]++
		for name, n := range map[string]int{"differing": e.report.Differing, "forgotten": e.report.Forgotten,
			"unpurged": e.report.Unpurged, "skipped": e.report.Skipped, "unnoticed": e.report.Unnoticed} {
			if n > 0 {
				ends[name]++
			}
		}
	}
	for _, name := range []string{"<nil>", "*repair.Unavailable", "*repair.Failed", "*errors.errorString",
		"differing", "forgotten", "unpurged", "skipped", "unnoticed"} {
		if ends[name] == 0 {
			t.Errorf("no job of %v ends with %s", ends, name)
		}
	}
	t.Logf("%v", ends)
}
