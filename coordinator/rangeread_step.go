package coordinator

import (
	"errors"
	"slices"

	"cqld/coordinator/resolve"
	"cqld/internal/env"
	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// refused wraps the failure of a part of a range read that a replica refused because of its epoch.
type refused struct{ error }

// Unwrap returns the failure of the part.
func (r *refused) Unwrap() error { return r.error }

// ranging is the state machine of a range read. The ring is divided into pieces with one replica set each, and every
// piece is a readOp. Their pages are processed in token order. The number of concurrent pieces depends on the number of
// rows in the first pages.
type ranging struct {
	c        *Coordinator // for its view and limits
	req      *ReadRequest
	table    *schema.Table
	cancel   *env.Cancel // of the pieces
	topology *ring.Topology
	rest     ring.Range // what the next plan divides
	pieces   []ring.RangeReplicas
	pages    [][]byte // answers of pieces that are not processed yet
	started  int      // pieces requested
	taken    int      // pieces whose rows are in out
	width    int      // maximum number of concurrent pieces
	out      row.PageWriter
	counted  uint32
	endsAt   *row.Position // where a filtered piece ended, if not after its last row
	plans    int
	round    int   // answers to earlier rounds are ignored
	failed   error // of a page that cannot be read
	pausing  bool  // until rangeResumed
	over     bool  // no event has an effect
}

// step takes an event and returns its effect. It neither sends, locks, waits nor calls back.
func (r *ranging) step(ev *rangeEvent) rangeEffect {
	if r.over {
		return rangeEffect{}
	}
	switch ev.kind {
	case rangeBegun:
		r.rest = r.req.Command.Range.Tokens
		if after := r.req.Command.Range.After; after != nil && after.Token > r.rest.Start {
			r.rest.Start = after.Token - 1 // other keys may have the same token
		}
		// The topology may have changed while the read was refused.
		r.plan()
	case rangeResumed:
		r.pausing = false
		r.plan()
	case rangeAnswered:
		return r.answered(ev)
	case rangeStarted:
	}
	return r.next()
}

// plan divides the rest of the range by the present topology. Adjacent ranges with the same replicas are read as one.
func (r *ranging) plan() {
	r.plans++
	r.topology = r.c.view.Topology()
	r.pieces = r.pieces[:0]
	if r.table.Replication.Class == ring.Local {
		self := ring.ReplicaSet{Natural: []ring.NodeID{r.c.view.Self()}}
		r.pieces = append(r.pieces, ring.RangeReplicas{Range: r.rest, Replicas: self})
	} else {
		for _, x := range r.topology.Placement(r.table.Replication).Ranges(r.rest) {
			if n := len(r.pieces); n > 0 && sameReaders(&r.pieces[n-1].Replicas, &x.Replicas) {
				// With virtual nodes there are many ranges of the same replicas, and each piece costs requests.
				r.pieces[n-1].Range.End = x.Range.End
				continue
			}
			r.pieces = append(r.pieces, x)
		}
	}
	r.pages = make([][]byte, len(r.pieces))
	r.started, r.taken, r.failed = 0, 0, nil
}

// pieceBytes returns the maximum size of a piece's page. The pages of all concurrent pieces together fit into the
// rest of the answer.
func (r *ranging) pieceBytes() uint32 {
	limit := r.req.Command.Limits.Bytes
	if limit == 0 {
		return 0
	}
	// Zero would mean no limit.
	return max(1, (limit-min(limit, uint32(r.out.Len())))/uint32(r.width))
}

// sameReaders reports whether reads of a and b ask the same nodes.
func sameReaders(a, b *ring.ReplicaSet) bool {
	return sameNodes(a.Natural, b.Natural) && sameNodes(a.Before, b.Before)
}

// sameNodes reports whether a and b contain the same nodes, in any order, because a read sorts them.
func sameNodes(a, b []ring.NodeID) bool {
	// Nodes of a replica set are distinct, so equal lengths and containment suffice.
	if len(a) != len(b) {
		return false
	}
	for _, n := range a {
		if !slices.Contains(b, n) {
			return false
		}
	}
	return true
}

// next returns the start of the next piece, if one more may run.
func (r *ranging) next() rangeEffect {
	if r.pausing || r.started == len(r.pieces) || r.started-r.taken >= r.width {
		return rangeEffect{}
	}
	i := r.started
	r.started++
	cmd := *r.req.Command
	cmd.Cancel = r.cancel
	cmd.Range.Tokens = r.pieces[i].Range
	if after := cmd.Range.After; after != nil && after.Token <= cmd.Range.Tokens.Start {
		// Only the first piece contains the key after which the page begins.
		cmd.Range.After = nil
	}
	// A piece may use the whole rest of the limits, because the pieces before it may have no rows.
	if cmd.Limits.Rows > 0 {
		cmd.Limits.Rows -= r.counted
	}
	cmd.Limits.Bytes = r.pieceBytes()
	return rangeEffect{kind: rangeStart, start: rangePiece{
		piece:    i,
		round:    r.round,
		cmd:      &cmd,
		set:      r.pieces[i].Replicas,
		topology: r.topology,
		memory:   r.req.Memory / r.width,
	}}
}

// answered handles the page of a piece, or its failure.
func (r *ranging) answered(ev *rangeEvent) rangeEffect {
	if ev.round != r.round {
		return rangeEffect{}
	}
	var small *row.PageTooSmall
	var memory *NeedsMemory
	switch i := ev.piece; {
	case errors.As(ev.err, &small) || errors.As(ev.err, &memory):
		// This need not fail the read: concurrent pieces share memory, and a piece that runs alone may use more.
		return r.tooSmall(ev.err)
	case ev.err != nil:
		return r.fail(ev.err)
	case len(r.pieces) == 1 && r.plans == 1:
		return r.finish(ev.page, nil) // without a copy
	case i > r.taken:
		r.pages[i] = slices.Clone(ev.page) // retained until the earlier pieces are processed
		return rangeEffect{}
	}
	// Pages are appended in token order, in whatever order they arrive.
	more := r.appendPage(ev.page)
	for more && r.taken < len(r.pieces) && r.pages[r.taken] != nil {
		page := r.pages[r.taken]
		r.pages[r.taken] = nil
		more = r.appendPage(page)
	}
	switch {
	case r.failed != nil:
		return r.finish(nil, r.failed)
	case !more && r.endsAt != nil:
		return r.finish(r.out.FinishAfter(r.endsAt), nil)
	case !more:
		return r.finish(r.out.Finish(true), nil)
	case r.taken == len(r.pieces):
		return r.finish(r.out.Finish(false), nil)
	}
	r.widen()
	return r.next()
}

// tooSmall handles a row that does not fit into the page of a piece, or a merge that does not fit into its part of
// the memory. If concurrent pieces shared the limits, the read continues from this piece with one piece at a time;
// otherwise the answer ends before the row, and fails if it is empty.
func (r *ranging) tooSmall(err error) rangeEffect {
	switch {
	case r.width > 1:
		// Answers of pieces that still run are ignored, and these pieces are read again.
		r.round++
		r.width, r.started = 1, r.taken
		clear(r.pages)
		return r.next()
	case r.out.Len() > 0:
		return r.finish(r.out.Finish(true), nil)
	}
	return r.finish(nil, err)
}

// fail ends the read, or plans its rest again if a replica refused its piece.
func (r *ranging) fail(err error) rangeEffect {
	var refusal *refused
	if !errors.As(err, &refusal) || !r.c.MayReplan(r.plans) {
		if refusal != nil {
			// Clients must not see the wrapper, which only range reads use.
			err = refusal.error
		}
		return r.finish(nil, err)
	}
	r.rest = r.req.Command.Range.Tokens
	// Appended rows stay in the answer: they are correct in any topology.
	r.rest.Start = r.pieces[r.taken].Range.Start
	r.round++
	r.pausing = true
	return rangeEffect{kind: rangePause, after: ReplanPause << (r.plans - 1)}
}

// finish ends the read with a page or an error.
func (r *ranging) finish(page []byte, err error) rangeEffect {
	r.over = true
	return rangeEffect{kind: rangeFinish, page: page, err: err}
}

// appendPage appends the rows of the next range, up to the limit. It returns false if the limit is met, the page
// reports that it is not the whole range, or the answer is large enough.
func (r *ranging) appendPage(page []byte) bool {
	r.taken++
	cmd := r.req.Command
	limit := cmd.Limits.Rows
	var p row.PageReader
	p.Reset(page)
	for p.NextPartition() {
		r.out.Partition(p.Key, &p.Header, p.RangeTombstones)
		live, full := uint32(0), false
		var x row.Row
		for !full && p.NextRow(&x) {
			r.out.Row(&x)
			if x.Live(cmd.Now) {
				live++
				full = limit > 0 && r.counted+live >= limit
			}
		}
		r.out.EndPartition()
		// A partition with only static columns counts as a row for some commands.
		live = resolve.CountRows(live, p.Header.Live(cmd.Now), cmd)
		if r.counted += live; limit > 0 && r.counted >= limit {
			return false
		}
	}
	if err := p.Err(); err != nil {
		r.failed = err
	}
	r.endsAt = p.End()
	// After the last piece the page is complete, whatever its size.
	full := r.out.Len() >= resultBytes(cmd, r.c.limits.ResultBytes) && r.taken < len(r.pieces)
	return !p.More() && !full
}

// widen raises the number of concurrent ranges to the number that is probably needed, judging by the rows read so far,
// but at most doubles it.
func (r *ranging) widen() {
	wanted := len(r.pieces)
	if limit := r.req.Command.Limits.Rows; limit > 0 && r.counted > 0 {
		perPiece := (float64(r.counted) / float64(r.taken))
		// The estimate assumes that the remaining pieces are as dense as those read so far.
		wanted = int(float64(limit-r.counted)/perPiece) + 1
	}
	r.width = max(1, min(wanted, 2*r.width, r.c.limits.RangesInFlight))
}

// checkInvariants stops the program if an invariant is broken:
//
//  1. Pieces are taken in their order, after they were started.
//  2. No more pieces run than Limits.RangesInFlight.
//  3. The answer has no more rows than the limit.
//  4. A read that has not ended waits for a piece, or for the end of a pause.
func (r *ranging) checkInvariants() {
	if r.over {
		return
	}
	invariant.Check(r.taken <= r.started && r.started <= len(r.pieces), "range read: a piece is taken before its start")
	invariant.Check(r.started-r.taken <= max(r.c.limits.RangesInFlight, 1), "range read: too many pieces")
	limit := r.req.Command.Limits.Rows
	invariant.Check(limit == 0 || r.counted < limit, "range read: more rows than the limit")
	invariant.Check(r.pausing || r.started > r.taken, "range read: nothing is awaited")
}
