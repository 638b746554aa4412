package messaging

import (
	"errors"
	"net/netip"
	"time"

	"cqld/internal/env"
	"cqld/ring"
)

// Verb says what a message asks for.
type Verb uint8

// The verbs. Their numbers are part of the protocol between nodes.
const (
	VerbMutation     Verb = 1 + iota // apply mutations; empty reply
	VerbRead                         // read command; reply is a page
	VerbDigest                       // read command; reply is a digest
	VerbReadRepair                   // apply mutations that a read found missing
	VerbHint                         // apply hinted mutations
	VerbTruncate                     // drop a table's data
	VerbRaft                         // a Raft message; one-way
	_                                // of an earlier protocol
	VerbJoin                         // a new node asks to be admitted
	VerbHeartbeat                    // I am alive
	VerbApplied                      // how far a node has applied the metadata log
	VerbPaxosPrepare                 // promise a ballot, and read; reply is the acceptor's state and a page
	VerbPaxosAccept                  // accept a proposal
	VerbPaxosCommit                  // apply what was decided
	VerbCounter                      // lead a counter update
	VerbBatchStore                   // keep a logged batch until it is removed
	VerbBatchRemove                  // the batch is applied
	VerbStream                       // the next sstable of a range
	VerbMerkle                       // hashes of parts of a range
	VerbRepaired                     // a range was repaired
	VerbControl                      // an operator's command for another node
	VerbPartitions                   // the next partition keys in their own order
	VerbTurn                         // when is it this node's turn with a partition that several change?
	VerbPass                         // the turn is over; one-way
	VerbNewest                       // read command; reply is the newest timestamp there
	VerbPaxosPurge                   // step over the state of Paxos in a range; reply is a step
	VerbHolds                        // do you hold these ranges? reply is a byte for each
)

// ErrUnreachable is the reply's error when the request was certainly not sent.
var ErrUnreachable = errors.New("messaging: peer is not connected")

// ErrTimeout is the reply's error when the deadline passed or the connection broke: the peer may
// have done what was asked, or not.
var ErrTimeout = errors.New("messaging: no reply in time")

// ErrOverloaded is the reply's error when too many bytes wait for the peer; nothing was sent.
var ErrOverloaded = errors.New("messaging: too many requests in flight to peer")

// ErrCanceled is the reply's error when the request was canceled: the peer may have done what was asked, or not.
var ErrCanceled = errors.New("messaging: the request was canceled")

// ErrClosed is why a transport that closes runs nothing more.
var ErrClosed = errors.New("messaging: the transport is closed")

// RemoteError is a failure the peer answered with.
type RemoteError struct {
	Code    uint8 // the handler's own
	Message string
}

// Error is the peer's message.
func (e *RemoteError) Error() string { return e.Message }

// Reply receives the outcome of a request, once. payload is valid only during the call.
type Reply func(payload []byte, err error)

// Respond sends a handler's answer, once; err may be a *RemoteError to keep its code.
type Respond func(payload []byte, err error)

// CodeStranger is the code of a RemoteError for a request of a peer that the receiver does not know as a member. Nothing
// was done.
const CodeStranger = 254

// Handler does what a verb asks. from is a member, and the peer is at the address that the metadata register for it. payload is valid until it returns; it must not wait for the
// network. respond may be called later, from any goroutine; for one-way messages it does nothing.
type Handler func(from ring.NodeID, payload []byte, respond Respond)

// Call is a request as a CallHandler gets it.
type Call struct {
	From    ring.NodeID
	Payload []byte // as a Handler's
	// Cancel ends when the sender does not wait for the answer any more: it said so, its timeout has passed, or its
	// stream broke. It is nil when the service does not block.
	Cancel *env.Cancel
	Trace  *Trace // nil unless the request is traced
}

// CallHandler is a Handler of a verb that may take long, and looks at Call.Cancel then, or that adds events to traces.
type CallHandler func(c Call, respond Respond)

// Sender is the peer that sent a message.
type Sender struct {
	Node   ring.NodeID // the id that the peer states; zero before it is a member
	Addr   netip.Addr  // the peer's address
	Member bool        // the metadata bind Node to Addr; otherwise Node may be forged
}

// AnyHandler is a Handler of a verb that peers which are not known as members may use.
type AnyHandler func(from Sender, payload []byte, respond Respond)

// Canceler is a Transport whose requests can be canceled.
type Canceler interface {
	// RequestCancelable is Request. cancel calls reply with ErrCanceled, if it was not called yet, and tells the peer.
	RequestCancelable(to ring.NodeID, verb Verb, payload []byte, timeout time.Duration, reply Reply) (cancel func())
}

// RequestCancelable sends a request of an operation that cancel ends, which may be nil. Where t is no Canceler, the
// request goes on until its timeout.
func RequestCancelable(t Transport, to ring.NodeID, verb Verb, payload []byte, timeout time.Duration, cancel *env.Cancel, reply Reply) {
	c, ok := t.(Canceler)
	if cancel == nil || !ok {
		t.Request(to, verb, payload, timeout, reply)
		return
	}
	// What is left of an answered request does nothing, and ends with the operation.
	cancel.OnCancel(c.RequestCancelable(to, verb, payload, timeout, reply))
}

// Service is what a node does for a verb.
type Service struct {
	Verb Verb
	Name string // in logs
	// Blocking says that Handler may read the disk, wait, or hold a lock meanwhile. It runs in a worker then. One that
	// does not block runs on the goroutine of the peer's stream, before all that comes behind it: it must hand what
	// may block to Transport.Run.
	Blocking bool
	Handler  Handler
	// Call, when it is not nil, is called instead of Handler by transports that cancel and trace requests.
	Call CallHandler
	// Any, when it is not nil, is called instead of Handler, also for messages of peers that are not known as members. It
	// does not block. A verb without it is refused to such peers with CodeStranger.
	Any AnyHandler
}

// Register makes t offer services.
func Register(t Transport, services ...Service) {
	for _, s := range services {
		if h := s.Call; s.Handler == nil && h != nil {
			s.Handler = func(from ring.NodeID, payload []byte, respond Respond) {
				h(Call{From: from, Payload: payload}, respond)
			}
		}
		t.Handle(s)
	}
}

// Transport sends to other nodes. Implementations copy payload before they return, and call Reply
// on any goroutine, possibly before Request returns. A Reply must not block: it may run on the
// goroutine of a stream or of a timer.
type Transport interface {
	// Send is one-way and may be lost.
	Send(to ring.NodeID, verb Verb, payload []byte)
	// Request calls reply with the answer, or with an error when timeout has passed.
	Request(to ring.NodeID, verb Verb, payload []byte, timeout time.Duration, reply Reply)
	// Handle sets what is done for a verb; before the transport starts.
	Handle(Service)
	// Run lets a worker do f, which may block and holds so many bytes until it returns. Workers and what waits for
	// them are bounded: ErrOverloaded and ErrClosed mean that f is not called.
	Run(bytes int, f func()) error
}
