package coordinator

import (
	"time"

	"cqld/coordinator/quorum"
	"cqld/coordinator/resolve"
	"cqld/internal/env"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// reading is the state machine of a readOp.
//
//	readBegun ─ plan ─▶ one page and digests ── equal ──▶ reply
//	    ▲                  │ late: speculate       └ differ ─▶ pages of all ─▶ repairs ─▶ reply, or the next rows
//	    └ readResumed ◀─ pause ◀─ a refusal
//
// Its steps neither send, lock, wait nor call back.
type reading struct {
	c     *Coordinator // for its view, limits, latencies, buffers and counters
	round int          // answers to earlier rounds are ignored
	asked *row.ReadCommand
	cmd   *row.ReadCommand // with the filter that replicas evaluate
	// requested is the command of the request. Its filter may have conditions that no replica evaluates.
	requested *row.ReadCommand
	level     ring.Consistency
	table     *schema.Table
	topology  *ring.Topology
	self      ring.NodeID
	set       ring.ReplicaSet
	only      []ring.NodeID // ReadRequest.Only
	natural   [1]ring.NodeID
	deadline  time.Duration // monotonic; zero means that only this node is asked, without a timer
	started   time.Duration
	whole     bool // not part of a range read: counted, and planned again if refused
	plans     int

	phase      readPhase
	tally      quorum.Tally
	targets    []*readTarget // live, nearest first
	spareSlots []*readTarget
	refused    bool
	remote     bool // another node was asked
	resolver   resolve.Resolver
	rounds     int
	next       *resolve.Position // where the read continues after the repairs
	kept       []*[]byte         // pages referenced by the resolver's result
	memory     int               // of ReadRequest
	open       int               // requests and repairs of all rounds whose answers are outstanding
	pausing    bool              // until readResumed
	over       bool              // the client is answered with page and err
	page       []byte
	err        error
}

// readTarget is one replica of a read.
type readTarget struct {
	node     ring.NodeID
	state    readState
	err      error
	sent     time.Duration
	digest   row.Digest
	page     *[]byte // retained copy; nil if only the digest is known
	onPage   func([]byte, error)
	onDigest func(row.Digest, error)
}

// at returns the node, for SortByProximity.
func (t *readTarget) at() ring.NodeID { return t.node }

type readState uint8

const (
	readSpare    readState = iota // alive, not asked yet
	readOpenPage                  // page requested
	readOpenDigest
	readAnswered
	readFailed
)

// readPhase is the phase of a read: what it waits for.
type readPhase uint8

const (
	phaseDigest readPhase = iota // one page and digests
	phaseData                    // pages, because digests differed or a page ended early
	phaseRepair                  // acknowledgements of repairs
)

// readEvent is an input of a reading.
type readEvent struct {
	kind   readEventKind
	round  int           // readPaged, readDigested, readRepaired
	now    time.Duration // monotonic; zero if no step needs it
	target *readTarget   // readPaged, readDigested
	node   ring.NodeID   // readRepaired
	page   []byte        // readPaged; valid until the effects of the step were performed
	digest row.Digest    // readDigested
	err    error         // readPaged, readDigested, readRepaired
}

type readEventKind uint8

const (
	readBegun    readEventKind = iota
	readPaged                  // a replica has sent its page, or has failed
	readDigested               // a replica has sent the digest of its page, or has failed
	readRepaired               // a replica has applied its repair, or has failed
	readTicked                 // others are asked because a replica is late; then the deadline
	readResumed                // the pause has ended
	readCanceled               // the caller no longer waits for the answer
)

// readEffect is an output of a reading.
type readEffect struct {
	kind   readEffectKind
	digest bool             // readAsk: only the digest
	target *readTarget      // readAsk
	repair *resolve.Repairs // readRepair
	after  time.Duration    // readArm, readPause
}

type readEffectKind uint8

const (
	readAsk       readEffectKind = iota // request the page of target, or its digest
	readRepair                          // send a replica what it lacks
	readSpeculate                       // count that one more replica is asked
	readMismatch                        // count that digests differ
	readArm                             // set the timer
	readPause                           // wait for a newer topology
	readReply                           // answer the client
)

// reset prepares r for a request; the caller adds the replicas.
func (r *reading) reset(req *ReadRequest, table *schema.Table, t *ring.Topology) {
	// filtered replaces cmd and asked once the plan has determined how many replicas must answer.
	r.requested, r.cmd, r.asked = req.Command, req.Command, req.Command
	r.level, r.only, r.table = req.Consistency, req.Only, table
	r.topology, r.self = t, r.c.view.Self()
	r.round, r.rounds, r.plans, r.phase = 0, 0, 0, phaseDigest
	r.refused, r.remote, r.pausing, r.next = false, false, false, nil
	r.open, r.started, r.page, r.err, r.memory = 0, 0, nil, nil, req.Memory
	// The resolver refers to memory and the command, so it is made after them.
	r.resolver = r.newResolver()
}

// clear releases what the read referred to. The targets are kept for another read.
func (r *reading) clear() {
	for _, t := range r.targets {
		// The pages were released with the answer.
		t.page = nil
		r.spareSlots = append(r.spareSlots, t)
	}
	r.targets = r.targets[:0]
	r.requested, r.cmd, r.asked, r.table, r.topology = nil, nil, nil, nil, nil
	r.set, r.only, r.page, r.err = ring.ReplicaSet{}, nil, nil, nil
}

// idle reports whether no event of a replica or a pause can follow.
func (r *reading) idle() bool { return r.over && r.open == 0 && !r.pausing }

// newResolver returns the resolver of the present command.
func (r *reading) newResolver() resolve.Resolver {
	// An empty resolver costs nothing: it allocates only if pages differ, which is rare.
	x := resolve.New(r.cmd, resultBytes(r.cmd, r.c.limits.ResultBytes))
	x.SetMemory(r.memory)
	for _, b := range r.kept { // of an earlier plan
		_ = x.Hold(len(*b)) // Err returns the error
	}
	return x
}

// resultBytes returns the size at which the answer to cmd ends: the limit of cmd, but no more than most.
func resultBytes(cmd *row.ReadCommand, most int) int {
	if n := cmd.Limits.Bytes; n > 0 {
		return min(most, int(n))
	}
	return most
}

// step takes an event and appends its effects.
func (r *reading) step(ev *readEvent, out []readEffect) []readEffect {
	switch ev.kind {
	case readPaged, readDigested, readRepaired:
		// Counted even after the read has ended, so that idle becomes true when nothing is outstanding.
		r.open--
	case readResumed:
		r.pausing = false
	// These events answer no request.
	case readBegun, readTicked, readCanceled:
	}
	if r.over {
		return out
	}
	switch ev.kind {
	case readBegun:
		return r.planAndAsk(ev.now, out)
	case readPaged, readDigested:
		return r.answered(ev, out)
	case readRepaired:
		return r.repaired(ev, out)
	case readTicked:
		return r.tick(ev.now, out)
	case readResumed:
		// By now, this node has probably received the topology that made the replicas refuse.
		return r.replan(out)
	case readCanceled:
		return r.fail(env.ErrCanceled, out)
	}
	return out
}

// planAndAsk chooses replicas and requests their answers.
func (r *reading) planAndAsk(now time.Duration, out []readEffect) []readEffect {
	if err := r.plan(); err != nil {
		return r.fail(err, out)
	}
	// The filter depends on the plan, which determines whether one answer is enough.
	r.filtered()
	r.started = now
	return r.choose(out)
}

// ask requests the page of t, or its digest.
func (r *reading) ask(t *readTarget, digest bool, out []readEffect) []readEffect {
	t.state = readOpenPage
	if digest {
		t.state = readOpenDigest
	}
	// Every request is answered exactly once, with an error if the replica is dead.
	r.open++
	r.remote = r.remote || t.node != r.self
	return append(out, readEffect{kind: readAsk, target: t, digest: digest})
}

// answered handles a replica's page, its digest, or its failure.
func (r *reading) answered(ev *readEvent, out []readEffect) []readEffect {
	t := ev.target
	if ev.round != r.round || t.state != readOpenPage && t.state != readOpenDigest {
		return out // too late to be used
	}
	if ev.err != nil {
		// Checked before the state changes, because failed uses it to distinguish pages from digests.
		return r.failed(ev, out)
	}
	t.state = readAnswered
	r.tally.Answered(t.node)
	if ev.kind == readDigested {
		t.digest = ev.digest
		// A digest alone never decides: a page is needed, too.
		return r.compare(out)
	}
	// Every page of a data round is merged, so each is kept.
	if r.phase == phaseData {
		if err := r.keep(t, ev.page); err != nil {
			return r.fail(err, out)
		}
		return r.gather(out)
	}
	if received, blockFor := r.tally.Totals(); blockFor == 1 && received == 1 && !r.tally.TwoSided() {
		// Level ONE: the page is passed on without a digest and without a copy.
		return r.succeed(ev.page, out)
	}
	// Computed here, because the replica was asked for the page instead.
	t.digest = row.DigestOf(ev.page)
	if r.tally.Satisfied() && r.agreed() {
		return r.succeed(ev.page, out) // without a copy
	}
	if err := r.keep(t, ev.page); err != nil {
		return r.fail(err, out)
	}
	return r.compare(out)
}

// keep copies a page, which is valid only during the event. It fails if there is no memory for it.
func (r *reading) keep(t *readTarget, page []byte) error {
	// Before the copy: memory is reserved, then used.
	if err := r.resolver.Hold(len(page)); err != nil {
		return err
	}
	b := r.c.buffer()
	*b = append((*b)[:0], page...)
	t.page = b
	r.kept = append(r.kept, b)
	return nil
}

// compare ends the digest phase when enough replicas have answered, one of them with a page.
func (r *reading) compare(out []readEffect) []readEffect {
	if !r.tally.Satisfied() {
		// The read continues with the remaining answers, or with the timer.
		return out
	}
	with := r.withPage()
	if with == nil {
		// The page is outstanding, or its sender failed and all others sent digests.
		return r.needPage(out)
	}
	if r.agreed() {
		return r.succeed(*with.page, out)
	}
	// The replicas with the same digest as the available page need not send theirs.
	for _, t := range r.targets {
		if t.state == readAnswered && t.page == nil && t.digest == with.digest {
			t.page = with.page
		}
	}
	// The data round asks the others only.
	out = append(out, readEffect{kind: readMismatch})
	return r.dataRound(func(t *readTarget) bool { return t.page != nil }, out)
}

// withPage returns a target whose page is retained.
func (r *reading) withPage() *readTarget {
	for _, t := range r.targets {
		if t.state == readAnswered && t.page != nil {
			return t
		}
	}
	return nil
}

// agreed reports whether all answers have the same digest.
func (r *reading) agreed() bool {
	var first *readTarget
	for _, t := range r.targets {
		switch {
		// Late and failed replicas have no digest to compare.
		case t.state != readAnswered:
		case first == nil:
			first = t
		case t.digest != first.digest:
			return false
		}
	}
	return true
}

// resetTally resets the counts.
func (r *reading) resetTally() {
	if r.only != nil {
		// ALL of the named nodes, whatever the replicas of the ring are.
		r.tally.ResetTo(r.set.Among(r.only))
		return
	}
	r.tally.Reset(r.level, r.table.Replication, r.topology, r.self, r.c.localDC)
	// While an operation is Switching, both sides must answer.
	r.tally.JoinRead(r.set, r.level, r.table.Replication)
}

// dataRound requests pages from all replicas that answered, except those for which has returns true.
func (r *reading) dataRound(has func(*readTarget) bool, out []readEffect) []readEffect {
	r.phase = phaseData
	// Digests that are outstanding are ignored: these replicas are asked for their pages, or not at all.
	r.round++
	r.rounds++
	r.resetTally()
	asked := false
	for _, t := range r.targets {
		switch t.state {
		case readAnswered:
			r.tally.Opened(t.node)
			if has(t) {
				r.tally.Answered(t.node)
			} else {
				// The target's page belongs to an earlier round; r.kept still owns its buffer.
				t.page = nil
				asked = true
				out = r.ask(t, false, out)
			}
		case readOpenPage, readOpenDigest, readSpare:
			// A replica that has not answered is slower than the others, and becomes a spare of the data round.
			t.state = readSpare
			r.tally.Opened(t.node)
		case readFailed:
		}
	}
	if asked {
		return out
	}
	// No request is necessary: replicas with equal digests share one page.
	return r.gather(out)
}

// succeed answers with page.
func (r *reading) succeed(page []byte, out []readEffect) []readEffect {
	return r.conclude(page, nil, out)
}

// fail answers with err.
func (r *reading) fail(err error, out []readEffect) []readEffect { return r.conclude(nil, err, out) }

// conclude ends the read with a page or an error.
func (r *reading) conclude(page []byte, err error, out []readEffect) []readEffect {
	r.over, r.page, r.err = true, page, err
	// The resolver may refer to large pages, so it is cleared before op returns to the pool.
	r.resolver = resolve.Resolver{}
	return append(out, readEffect{kind: readReply})
}
