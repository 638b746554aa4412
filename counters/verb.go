package counters

import (
	"math"
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/internal/wire"
	"cqld/messaging"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
)

// updater leads the updates of other nodes. Counters implements it.
type updater interface {
	Lead(update *Update, timeout time.Duration, done func(error))
}

// Serve registers the handler of other nodes' requests to lead updates of counters. It is called before the transport
// starts.
//
//	VerbCounter   epoch, node, incarnation, sequence, level (1), timeout (µs), observed (1), row.AppendMutation
//	              reply: outcome (1), with its figures; of a successful update that is observed, what the leader
//	              has read: rows, tombstones, partitions, commands, bytes
func Serve(transport messaging.Transport, c *Counters) { serve(transport, c) }

func serve(transport messaging.Transport, leader updater) {
	transport.Handle(messaging.Service{Verb: messaging.VerbCounter, Name: "counter",
		Handler: func(_ ring.NodeID, payload []byte, respond messaging.Respond) {
			update, timeout, err := decodeCounter(slices.Clone(payload)) // the update is retained
			if err != nil {
				respond(nil, replica.ToRemote(err))
				return
			}
			// The reads are collected here and sent with the reply, because a trace belongs to one node.
			var observation *coordinator.Observation
			if update.observed {
				observation = new(coordinator.Observation)
				update.Trace = observation.Observe(nil)
			}
			leader.Lead(update, timeout, func(err error) {
				// An error that has no outcome is sent as a replica's error.
				reply, err := appendOutcome(nil, err)
				if len(reply) > 0 && reply[0] == outcomeDone && observation != nil {
					reply = appendReads(reply, observation.TakeReads())
				}
				respond(reply, replica.ToRemote(err))
			})
		}})
}

// Client implements Leaders by messages.
type Client struct{ transport messaging.Transport }

var _ Leaders = (*Client)(nil)

// NewClient returns a Client that sends through transport.
func NewClient(transport messaging.Transport) *Client { return &Client{transport} }

// Lead implements Leaders.
func (c *Client) Lead(node ring.NodeID, update *Update, timeout time.Duration, done func(error)) {
	// The leader's timeout ends before this node's, so that its answer reports how many replicas have the sum.
	request := appendCounter(nil, update, LeaderTimeout(timeout))
	coordinator.AddContact(update.Trace, node)
	transport := c.transport
	if update.Trace != nil {
		transport = replica.TracedTransport(transport, update.Trace)
	}
	transport.Request(node, messaging.VerbCounter, request, timeout, func(payload []byte, err error) {
		if err != nil {
			done(replica.FromRemote(err))
			return
		}
		reads, err := decodeOutcome(payload)
		// If the update failed, reads is zero, which Read accepts.
		if update.Trace != nil {
			update.Trace.Read(reads)
		}
		done(err)
	})
}

// appendCounter appends the request to lead an update for at most timeout.
func appendCounter(dst []byte, u *Update, timeout time.Duration) []byte {
	dst = wire.AppendUvarint(dst, u.Epoch)
	dst = coordinator.AppendRequestID(dst, u.ID)
	dst = append(dst, byte(u.Consistency))
	dst = wire.AppendUvarint(dst, uint64(timeout.Microseconds()))
	// The flag is also set when the sender forwards an update that another node observes.
	observed := byte(0)
	if u.Trace != nil || u.observed {
		observed = 1
	}
	dst = append(dst, observed)
	return row.AppendMutation(dst, u.Mutation)
}

// counterTimeoutMax bounds the timeout of a request.
const counterTimeoutMax = time.Hour

// decodeCounter is the inverse of appendCounter; the mutation points into payload.
func decodeCounter(payload []byte) (*Update, time.Duration, error) {
	c := wire.NewCursor(payload)
	u := &Update{Mutation: new(row.Mutation)}
	u.Epoch = c.Uvarint()
	u.ID = coordinator.ConsumeRequestID(&c)
	u.Consistency = ring.Consistency(c.Uint8())
	// The number is bounded before the multiplication, which could overflow.
	timeout := time.Duration(min(c.Uvarint(), uint64(counterTimeoutMax.Microseconds()))) * time.Microsecond
	u.observed = c.Uint8() != 0
	row.ConsumeMutation(&c, u.Mutation)
	return u, timeout, c.Finish()
}

// The outcomes of a counter update that was at least planned. Nodes of different versions exchange them, so their
// numbers are permanent.
const (
	outcomeDone = iota
	outcomeUnavailable
	outcomeTimeout
	outcomeFailure
)

// appendOutcome appends the outcome for the client; it returns other errors.
func appendOutcome(dst []byte, err error) ([]byte, error) {
	switch e := err.(type) { //nolint:errorlint // the coordinator does not wrap errors for clients
	case nil:
		return append(dst, outcomeDone), nil
	case *coordinator.Unavailable:
		return appendCounts(dst, outcomeUnavailable, e.Consistency, e.Required, e.Alive), nil
	case *coordinator.WriteTimeout:
		return appendCounts(dst, outcomeTimeout, e.Consistency, e.Received, e.BlockFor), nil
	case *coordinator.WriteFailure:
		dst = appendCounts(dst, outcomeFailure, e.Consistency, e.Received, e.BlockFor)
		dst = wire.AppendUvarint(dst, uint64(len(e.Failures)))
		for _, f := range e.Failures {
			dst = wire.AppendUvarint(dst, uint64(f.Node))
			dst = wire.AppendUint16(dst, uint16(f.Reason))
		}
		return dst, nil
	}
	// Among them ErrNotSent, after which another node may lead the update.
	return nil, err
}

// appendCounts appends an outcome with its level and two counts of replicas.
func appendCounts(dst []byte, outcome byte, level ring.Consistency, a, b int) []byte {
	dst = append(dst, outcome, byte(level))
	return wire.AppendUvarint(wire.AppendUvarint(dst, uint64(a)), uint64(b))
}

// appendReads appends what the leader of an observed update has read.
func appendReads(dst []byte, r coordinator.Reads) []byte {
	// In the order of decodeOutcome.
	for _, n := range [...]int{r.Rows, r.Tombstones, r.Partitions, r.Commands, r.Bytes} {
		dst = wire.AppendUvarint(dst, uint64(n))
	}
	return dst
}

// decodeOutcome is the inverse of appendOutcome and appendReads. After a malformed reply, the outcome is unknown.
func decodeOutcome(payload []byte) (coordinator.Reads, error) {
	var reads coordinator.Reads
	c := wire.NewCursor(payload)
	outcome := c.Uint8()
	if outcome == outcomeDone {
		if len(payload) > 1 {
			for _, n := range [...]*int{&reads.Rows, &reads.Tombstones, &reads.Partitions, &reads.Commands,
				&reads.Bytes} {
				x := c.Uvarint()
				// Sums of such counts do not overflow on any platform.
				if x > math.MaxInt32 {
					c.Fail(wire.ErrMalformed)
				}
				*n = int(x)
			}
		}
		if c.Finish() != nil {
			// The update may be counted, or not.
			return coordinator.Reads{}, coordinator.ErrNoReply
		}
		return reads, nil
	}
	level := ring.Consistency(c.Uint8())
	a, b := int(c.Uvarint()), int(c.Uvarint())
	var result error
	switch outcome {
	case outcomeUnavailable:
		result = &coordinator.Unavailable{Consistency: level, Required: a, Alive: b}
	case outcomeTimeout:
		result = &coordinator.WriteTimeout{Consistency: level, Received: a, BlockFor: b, Type: coordinator.WriteCounter}
	case outcomeFailure:
		f := &coordinator.WriteFailure{Consistency: level, Received: a, BlockFor: b, Type: coordinator.WriteCounter}
		// Count bounds the number by the bytes that are left, at least sizeMin for each.
		const sizeMin = 1 + 2
		for range c.Count(sizeMin) {
			f.Failures = append(f.Failures, coordinator.NodeFailure{Node: ring.NodeID(c.Uvarint()),
				Reason: coordinator.FailureReason(c.Uint16())})
		}
		result = f
	}
	if result == nil || c.Finish() != nil {
		return reads, coordinator.ErrNoReply
	}
	return reads, result
}
