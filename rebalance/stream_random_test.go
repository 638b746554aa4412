package rebalance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"cqld/messaging"
	"cqld/storage/failure"
)

// streamRows is the number of rows of a range in the model of streams.
const streamRows = 12

// streamChaos answers the effects of a streamMachine in any order, from a model of the disk: the rows that the file and
// the table of each session have, and its stored position. A row is a byte of a block, so that a position is a row.
type streamChaos struct {
	*streamSteps
	t        *testing.T
	seed     uint64
	rnd      *rand.Rand
	files    map[*session][]byte // rows in the incomplete file
	writing  map[*session]bool
	disk     map[string][]byte // rows that were ingested, by session ID
	position map[string]streamPosition
	fresh    map[*session]bool // the outstanding block was read after the last truncation
	past     []streamEvent
	ended    map[string]int // by session ID: starts less ends
	ends     map[string]int
}

func newStreamChaos(t *testing.T, seed uint64, ends map[string]int) *streamChaos {
	rnd := rand.New(rand.NewPCG(seed, 6))
	return &streamChaos{streamSteps: newStreamSteps(t, 1+rnd.IntN(3)), t: t, seed: seed, rnd: rnd, ends: ends,
		files: map[*session][]byte{}, writing: map[*session]bool{}, disk: map[string][]byte{},
		position: map[string]streamPosition{}, fresh: map[*session]bool{}, ended: map[string]int{}}
}

func (c *streamChaos) chance(n int) bool { return c.rnd.IntN(n) == 0 }

func (c *streamChaos) fatalf(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf("seed %d: %s", c.seed, fmt.Sprintf(format, args...))
}

// send passes an event to the machine, and performs its effects on the model.
func (c *streamChaos) send(ev streamEvent) {
	if ev.number != 0 {
		c.past = append(c.past, ev)
	}
	ev.now, ev.count = c.now, c.count
	for _, e := range c.m.step(&ev, nil) {
		q := e.session
		c.ends[describeStream(&e)[:4]]++
		//exhaustive:ignore
		switch e.kind {
		case streamRequestBlock:
			c.checkRequest(&e)
			c.fresh[q] = true
		case streamWrite:
			if c.writing[q] || c.writingID(q.ID) && c.m.sessions[q.ID] != q {
				c.fatalf("a block of %s is written while another is", q.ID)
			}
			if !c.fresh[q] {
				c.fatalf("a block of %s is written that was read before a truncation", q.ID)
			}
			c.writing[q] = true
		case streamAbort:
			if c.writing[q] {
				c.fatalf("the file of %s is discarded while a block is written", q.ID)
			}
			delete(c.files, q)
		case streamFinish:
			c.finished(&e)
		}
		if e.number != 0 {
			c.open = append(c.open, e)
		}
	}
	c.m.check()
}

// writingID reports whether a block of a session that has not ended is being written.
func (c *streamChaos) writingID(id string) bool {
	q := c.m.sessions[id]
	return q != nil && c.writing[q]
}

// checkRequest checks that all rows before the requested block are on the disk or in the file of the session.
func (c *streamChaos) checkRequest(e *streamEffect) {
	q := e.session
	for row := range byte(after(e.position)) {
		if !slices.Contains(c.disk[q.ID], row) && !slices.Contains(c.files[q], row) {
			c.fatalf("%s continues at row %d, and row %d was not received", q.ID, after(e.position), row)
		}
	}
}

// after returns the number of rows before a position.
func after(position []byte) int {
	if position == nil {
		return 0
	}
	return int(position[0])
}

// finished checks that a session that succeeded has the whole range on the disk, and that none ends twice.
func (c *streamChaos) finished(e *streamEffect) {
	if c.ended[e.session.ID]--; c.ended[e.session.ID] < 0 {
		c.fatalf("%s ends twice", e.session.ID)
	}
	if e.err == nil && len(c.disk[e.session.ID]) != streamRows {
		c.fatalf("%s is complete with %d rows", e.session.ID, len(c.disk[e.session.ID]))
	}
}

// begin starts a session.
func (c *streamChaos) begin(id string) {
	c.ended[id]++
	c.send(streamEvent{kind: streamStarted, session: &session{Session: Session{ID: id, Source: 2}}})
}

// deliver delivers the event of one outstanding effect.
func (c *streamChaos) deliver(fails bool) {
	i := c.rnd.IntN(len(c.open))
	e := c.open[i]
	c.open = slices.Delete(c.open, i, i+1)
	q := e.session
	ev := streamEvent{kind: streamEventOf(e.kind), session: q, number: e.number}
	//exhaustive:ignore
	switch e.kind {
	case streamLoad:
		ev.position = c.position[q.ID]
	case streamRequestBlock:
		ev.reply = &streamReply{total: streamRows}
		from := after(e.position)
		to := min(from+1+c.rnd.IntN(3), streamRows)
		for row := from; row < to; row++ {
			ev.reply.block = append(ev.reply.block, byte(row))
		}
		if to < streamRows {
			ev.reply.next = []byte{byte(to)}
		}
		if fails && c.chance(4) {
			ev.err = []error{messaging.ErrTimeout, errStreamChecksum, errDisk}[c.rnd.IntN(3)]
		}
	case streamWrite:
		c.write(&e, &ev, fails)
	case streamPause:
		c.now += e.after
	}
	c.send(ev)
}

// write adds a block to the file, and commits it at random.
func (c *streamChaos) write(e *streamEffect, ev *streamEvent, fails bool) {
	q := e.session
	delete(c.writing, q)
	ev.reply = e.reply
	if fails && c.chance(10) {
		ev.err = []error{failure.ErrDiskFull, errDisk}[c.rnd.IntN(2)]
		return
	}
	ev.added = int64(len(e.reply.block))
	file := append(c.files[q], e.reply.block...)
	if c.files[q] = file; e.reply.next != nil && !c.chance(3) {
		return
	}
	if e.count != c.count {
		ev.err = errStreamTruncated
		return
	}
	delete(c.files, q)
	for _, row := range file {
		if !slices.Contains(c.disk[q.ID], row) {
			c.disk[q.ID] = append(c.disk[q.ID], row)
		}
	}
	ev.committed = true
	c.position[q.ID] = streamPosition{ended: e.reply.next == nil, bytes: e.bytes + ev.added, after: e.reply.next}
}

// truncate truncates the table on this node. Blocks that were read before must not be written. What was ingested counts
// as received: rows that are written after the truncation reach this node without its sessions.
func (c *streamChaos) truncate() {
	c.count++
	clear(c.fresh)
	c.ends["truncated"]++
}

// run starts, cancels and truncates at random. In the end each session is started until it succeeds.
func (c *streamChaos) run() {
	ids := []string{"a", "b", "c", "d"}
	for range 200 {
		c.now += time.Duration(c.rnd.IntN(1000)) * time.Millisecond
		switch n := c.rnd.IntN(100); {
		case n < 15:
			c.begin(ids[c.rnd.IntN(4)])
		case n < 20:
			c.send(streamEvent{kind: streamCancelled, id: ids[c.rnd.IntN(4)]})
		case n < 22:
			c.truncate()
		case n < 30 && len(c.past) > 0:
			late := c.past[c.rnd.IntN(len(c.past))]
			// A write ends once. A second event of it could discard the file of the write under way.
			if late.kind != streamWritten {
				c.send(late)
			}
		case len(c.open) > 0:
			c.deliver(true)
		}
	}
	for _, id := range ids {
		c.begin(id)
	}
	for n := 0; len(c.m.sessions) > 0; n++ {
		if len(c.open) == 0 || n > 2000 {
			c.fatalf("%d sessions do not end", len(c.m.sessions))
		}
		c.deliver(false)
	}
	c.stop()
}

// stop stops all sessions, and delivers late events. No file stays open.
func (c *streamChaos) stop() {
	c.begin("a")
	c.send(streamEvent{kind: streamStopped})
	for len(c.open) > 0 {
		c.deliver(true)
	}
	if len(c.files) > 0 {
		c.fatalf("%d files are left", len(c.files))
	}
	for id, n := range c.ended {
		if n != 0 {
			c.fatalf("%d ends of %s are missing", n, id)
		}
	}
}

// TestStreamsInAnyOrder answers the effects of sessions in random orders, with failures, truncations, cancellations and
// late events. The invariants hold after each step, each session ends once, and with the whole range if it succeeds, no
// file is discarded while it is written, and none is left.
func TestStreamsInAnyOrder(t *testing.T) {
	seeds, ends := uint64(1000), map[string]int{}
	if testing.Short() {
		seeds = 200
	}
	for seed := range seeds {
		newStreamChaos(t, seed, ends).run()
	}
	for _, name := range []string{"load", "requ", "writ", "abor", "paus", "prog", "fini", "truncated"} {
		if ends[name] == 0 {
			t.Errorf("%v: none of %s", ends, name)
		}
	}
	t.Logf("%v", ends)
}
