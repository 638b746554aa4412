package acceptor

import (
	"errors"
	"slices"

	"cqld/internal/wire"
	"cqld/messaging"
	"cqld/paxos/ballot"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// Requests of Paxos:
//
//	VerbPaxosPrepare   epoch, ballot, previous, row.AppendReadCommand   reply: promise
//	VerbPaxosAccept    epoch, proposal                                  reply: the ballot promised instead, or empty
//	VerbPaxosCommit    epoch, accepted, proposal                        reply: empty, or 1 when it was not accepted
//
//	ballot   := time (µs) node        promise := verdict (1: refused, 2: unchanged) ballot state state low bound page
//	proposal := table key state
//	state    := ballot origin prior previous history update   of what was accepted, and of what was decided
//	history  := since n (time before the one before it, or before the origin; node)*

// appendBallot appends a ballot; an absent one is two bytes.
func appendBallot(dst []byte, b ballot.Ballot) []byte {
	return wire.AppendUvarint(wire.AppendVarint(dst, b.Micros), uint64(b.Node))
}

func consumeBallot(c *wire.Cursor) ballot.Ballot {
	return ballot.Ballot{Micros: c.Varint(), Node: ring.NodeID(c.Uvarint())}
}

func appendSized(dst, b []byte) []byte {
	return append(wire.AppendUvarint(dst, uint64(len(b))), b...)
}

func consumeSized(c *wire.Cursor) []byte { return c.Take(c.Count(1)) }

// appendState appends a proposal without its table and key, which the request contains.
func appendState(dst []byte, p *ballot.Proposal) []byte {
	dst = appendBallot(appendBallot(dst, p.Ballot), p.Origin)
	dst = appendHistory(appendBallot(appendBallot(dst, p.Prior), p.Previous), p)
	return appendSized(dst, p.Update)
}

// consumeState is the inverse of appendState. The update points into the payload.
func consumeState(c *wire.Cursor) ballot.Proposal {
	p := ballot.Proposal{Ballot: consumeBallot(c), Origin: consumeBallot(c), Prior: consumeBallot(c),
		Previous: consumeBallot(c)}
	p.History = consumeHistory(c, p.Origin)
	p.Update = consumeSized(c)
	return p
}

// appendHistory appends the history of a proposal; each time is encoded as the difference from the previous one.
func appendHistory(dst []byte, p *ballot.Proposal) []byte {
	dst = wire.AppendUvarint(appendBallot(dst, p.History.Since), uint64(len(p.History.Latest)))
	at := p.Origin.Micros
	for _, b := range p.History.Latest {
		dst = wire.AppendUvarint(wire.AppendVarint(dst, at-b.Micros), uint64(b.Node))
		// The changes were decided one after the other, so their times are near each other and their differences are
		// short.
		at = b.Micros
	}
	return dst
}

// consumeHistory is the inverse of appendHistory.
func consumeHistory(c *wire.Cursor, origin ballot.Ballot) (h ballot.History) {
	h.Since = consumeBallot(c)
	n := c.Count(2)
	// The acceptor stores the history, so its bound is enforced when a message is decoded.
	if n > ballot.HistoryMax {
		c.Fail(errMalformedState)
		return ballot.History{}
	}
	if n > 0 {
		// n is at most HistoryMax here, so a malformed count cannot allocate more.
		h.Latest = make([]ballot.Ballot, 0, n)
	}
	at := origin.Micros
	for range n {
		at -= c.Varint()
		h.Latest = append(h.Latest, ballot.Ballot{Micros: at, Node: ring.NodeID(c.Uvarint())})
	}
	return h
}

func appendProposal(dst []byte, epoch uint64, p *ballot.Proposal) []byte {
	dst = wire.AppendUvarint(dst, epoch)
	dst = wire.AppendUvarint(dst, uint64(p.Table))
	dst = wire.AppendInt64(dst, int64(p.Key.Token))
	return appendState(appendSized(dst, p.Key.Bytes), p)
}

func decodeProposal(payload []byte) (epoch uint64, p *ballot.Proposal, err error) {
	c := wire.NewCursor(payload)
	return consumeProposal(&c)
}

// consumeProposal decodes a proposal to the end of the payload, into which its key and update point.
func consumeProposal(c *wire.Cursor) (epoch uint64, p *ballot.Proposal, err error) {
	epoch = c.Uvarint()
	table := schema.StorageID(c.Uvarint())
	key := row.PartitionKey{Token: ring.Token(c.Int64()), Bytes: consumeSized(c)}
	// An empty key is a valid key, whereas nil would mean that there is none.
	if key.Bytes == nil {
		key.Bytes = []byte{}
	}
	state := consumeState(c)
	state.Table, state.Key = table, key
	return epoch, &state, c.Finish()
}

// appendPromise appends the reply to VerbPaxosPrepare.
func appendPromise(dst []byte, p *ballot.Promise) []byte {
	verdict := byte(0)
	switch {
	case p.Refused:
		verdict = 1
	case p.Unchanged:
		verdict = 2
	}
	// In an unchanged promise all fields but the page are zero, which are encoded in few bytes.
	dst = appendBallot(append(dst, verdict), p.Promised)
	dst = appendBallot(appendState(appendState(dst, &p.Accepted), &p.Commit), p.LowBound)
	return appendSized(dst, p.Page)
}

// promiseRest is the size of a promise without its page and updates, with short histories.
const promiseRest = 128

// decodePromise is the inverse of appendPromise. The page and the updates point into the payload.
func decodePromise(payload []byte) (*ballot.Promise, error) {
	c := wire.NewCursor(payload)
	verdict := c.Uint8()
	p := &ballot.Promise{Refused: verdict == 1, Unchanged: verdict == 2, Promised: consumeBallot(&c)}
	p.Accepted, p.Commit, p.LowBound = consumeState(&c), consumeState(&c), consumeBallot(&c)
	p.Page = consumeSized(&c)
	return p, c.Finish()
}

// A ballot in a cell is a time-based UUID, so that the table is readable: its time is the cell's timestamp, its node
// part the node. An update in a cell is preceded by its origin, the prior ballot, the previous ballot and the history.

const nodeBits = 1<<62 - 1

// ballotCell returns the cell of a ballot in a state's row.
func ballotCell(column schema.ColumnID, b ballot.Ballot) row.Cell {
	return row.Cell{Column: column, Timestamp: b.Micros, Value: appendBallotValue(make([]byte, 0, uuidBytes), b)}
}

// appendBallotValue appends the value of a ballot's cell.
func appendBallotValue(dst []byte, b ballot.Ballot) []byte {
	// A UUID counts units of 100 ns, and a microsecond is ten of them.
	ticks := types.UUIDTicks(b.Micros/1000, b.Micros%1000*10)
	// The two highest bits are the variant of RFC 4122, and the node has the other 62.
	return types.AppendTimeuuid(dst, ticks, 2<<62|uint64(b.Node)&nodeBits)
}

var errMalformedState = errors.New("paxos: malformed Paxos state")

// ballotOf returns the ballot of such a cell.
func ballotOf(c *row.Cell) (ballot.Ballot, error) {
	if len(c.Value) != 16 {
		return ballot.Ballot{}, errMalformedState
	}
	// The time is the timestamp of the cell, so only the node is decoded.
	at := wire.NewCursor(c.Value[8:])
	return ballot.Ballot{Micros: c.Timestamp, Node: ring.NodeID(uint64(at.Int64()) & nodeBits)}, nil
}

// updateCell returns the cell of a proposal's update in a state's row.
func updateCell(column schema.ColumnID, p *ballot.Proposal) row.Cell {
	// An estimate of the header: four ballots and, for each coordinator of the history, a difference of times and a
	// node.
	value := appendUpdateHead(make([]byte, 0, 40+12*len(p.History.Latest)+len(p.Update)), p)
	return row.Cell{Column: column, Timestamp: p.Ballot.Micros, Value: append(value, p.Update...)}
}

// appendUpdateHead appends the header of an update in a cell.
func appendUpdateHead(dst []byte, p *ballot.Proposal) []byte {
	return appendHistory(appendBallot(appendBallot(appendBallot(dst, p.Origin), p.Prior), p.Previous), p)
}

// decodeUpdate is the inverse of appendUpdateHead and the update after it, which points into value.
func decodeUpdate(value []byte, p *ballot.Proposal) error {
	c := wire.NewCursor(value)
	p.Origin, p.Prior, p.Previous = consumeBallot(&c), consumeBallot(&c), consumeBallot(&c)
	p.History = consumeHistory(&c, p.Origin)
	p.Update = c.Take(c.Len())
	return c.Finish()
}

// endCell deletes the content up to the ballot. It is equal on all replicas.
func endCell(column schema.ColumnID, b ballot.Ballot) row.Cell {
	// LocalTime is derived from the ballot, because each replica writes this cell at its own time and their rows must
	// not differ.
	return row.Cell{Column: column, Timestamp: b.Micros, Tombstone: true, LocalTime: b.Micros / 1e6}
}

// decodeMutation decodes an update into m, which then points into it.
func decodeMutation(update []byte, m *row.Mutation) error {
	c := wire.NewCursor(update)
	row.ConsumeMutation(&c, m)
	return c.Finish()
}

// Serve registers the handlers of other nodes' requests to this node's acceptor. It is called before the transport
// starts.
func Serve(transport messaging.Transport, a *Acceptor) {
	s := &server{acceptor: a}
	// These read uncached states in a worker, as a step of the partition.
	messaging.Register(transport,
		messaging.Service{Verb: messaging.VerbPaxosPrepare, Name: "paxos prepare", Handler: s.prepare},
		messaging.Service{Verb: messaging.VerbPaxosAccept, Name: "paxos accept", Handler: s.accept},
		messaging.Service{Verb: messaging.VerbPaxosCommit, Name: "paxos commit", Handler: s.commit},
	)
}

// server answers the requests of other nodes.
type server struct{ acceptor *Acceptor }

// prepare answers another node's proposer. The request may be queued, so it owns its bytes, as accept and commit do.
func (s *server) prepare(_ ring.NodeID, payload []byte, respond messaging.Respond) {
	c := wire.NewCursor(slices.Clone(payload))
	cmd := new(row.ReadCommand)
	epoch, b, previous := c.Uvarint(), consumeBallot(&c), consumeBallot(&c)
	row.ConsumeReadCommand(&c, cmd)
	// A ballot of zero means none, and a range of partitions has no acceptor.
	if err := c.Finish(); err != nil || !cmd.SinglePartition() || !b.Present() {
		respond(nil, replica.ToRemote(errors.Join(errMalformedRequest, err)))
		return
	}
	s.acceptor.prepare(epoch, b, previous, cmd, false, func(p *ballot.Promise, err error) {
		if err != nil {
			respond(nil, replica.ToRemote(err))
			return
		}
		// Only these three fields can be large, so their size suffices to allocate the reply once.
		size := len(p.Page) + len(p.Accepted.Update) + len(p.Commit.Update)
		respond(appendPromise(make([]byte, 0, size+promiseRest), p), nil)
	})
}

// accept answers another node's proposal. The acceptor caches the update, so the request owns its bytes.
func (s *server) accept(_ ring.NodeID, payload []byte, respond messaging.Respond) {
	epoch, p, err := decodeProposal(slices.Clone(payload))
	if err != nil || !p.Ballot.Present() {
		respond(nil, replica.ToRemote(errors.Join(errMalformedRequest, err)))
		return
	}
	s.acceptor.Accept(epoch, p, func(refused ballot.Ballot, err error) {
		switch {
		case err != nil:
			respond(nil, replica.ToRemote(err))
		case refused.Present():
			// A reply with a ballot is a refusal; without content it is an acceptance.
			respond(appendBallot(nil, refused), nil)
		default:
			respond(nil, nil)
		}
	})
}

// commit answers another node's commit.
func (s *server) commit(_ ring.NodeID, payload []byte, respond messaging.Respond) {
	c := wire.NewCursor(slices.Clone(payload))
	accepted := c.Uint8() == 1
	epoch, p, err := consumeProposal(&c)
	if err != nil || !p.Ballot.Present() {
		respond(nil, replica.ToRemote(errors.Join(errMalformedRequest, err)))
		return
	}
	p.Accepted = accepted
	s.acceptor.Commit(epoch, p, func(err error) {
		if errors.Is(err, ballot.ErrNotAccepted) {
			// ErrNotAccepted is part of the protocol, not a failure: the proposer repeats the commit with the update.
			respond([]byte{1}, nil)
			return
		}
		respond(nil, replica.ToRemote(err))
	})
}

var errMalformedRequest = errors.New("paxos: malformed Paxos request")
