package messaging

import (
	"errors"
	"net/netip"
	"time"

	"cqld/internal/env"
	"cqld/ring"
)

// Verb identifies the type of a message.
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
	VerbJoin                         // a new node requests to be admitted
	VerbHeartbeat                    // the sender is alive
	VerbApplied                      // how far a node has applied the metadata log
	VerbPaxosPrepare                 // promise a ballot, and read; reply is the acceptor's state and a page
	VerbPaxosAccept                  // accept a proposal
	VerbPaxosCommit                  // apply a decided proposal
	VerbCounter                      // lead a counter update
	VerbBatchStore                   // store a logged batch until it is removed
	VerbBatchRemove                  // the batch is applied; remove it
	VerbStream                       // the next sstable of a range
	VerbMerkle                       // hashes of parts of a range
	VerbRepaired                     // a range was repaired
	VerbControl                      // an operator's command for another node
	VerbPartitions                   // the next partition keys in key order
	VerbTurn                         // request a turn with a partition that several coordinators change
	VerbPass                         // the turn is over; one-way
	VerbNewest                       // read command; reply is the newest timestamp there
	VerbPaxosPurge                   // scan the Paxos state of a range; reply is a step
	VerbHolds                        // does the receiver hold these ranges? reply is a byte for each
	VerbSearch                       // the next rows that match by an index
)

// ErrUnreachable is the error of a Reply when the request was certainly not sent.
var ErrUnreachable = errors.New("messaging: peer is not connected")

// ErrTimeout is the error of a Reply when the deadline passed or the connection ended. The peer may or may not have
// executed the request.
var ErrTimeout = errors.New("messaging: no reply in time")

// ErrOverloaded is the error of a Reply when too many bytes wait for the peer. Nothing was sent.
var ErrOverloaded = errors.New("messaging: too many requests in flight to peer")

// ErrCanceled is the error of a Reply when the request was canceled. The peer may or may not have executed it.
var ErrCanceled = errors.New("messaging: the request was canceled")

// ErrClosed is the error of a transport that is closing.
var ErrClosed = errors.New("messaging: the transport is closed")

// RemoteError is an error that the peer returned.
type RemoteError struct {
	Code    uint8 // defined by the handler
	Message string
}

// Error returns the peer's message.
func (e *RemoteError) Error() string { return e.Message }

// Reply receives the outcome of a request, once. payload is valid only during the call.
type Reply func(payload []byte, err error)

// Respond sends the reply of a handler, once. err may be a *RemoteError, whose code is preserved.
type Respond func(payload []byte, err error)

// CodeUnknownPeer is the code of a RemoteError for a request of a peer that the receiver does not know as a member. The
// request was not executed.
const CodeUnknownPeer = 254

// Handler executes requests of a verb. from is a member, and the peer connects from the address that the metadata
// register for it. payload is valid until Handler returns. Handler must not wait for the network. It may call respond
// later, from any goroutine; for one-way messages respond does nothing.
type Handler func(from ring.NodeID, payload []byte, respond Respond)

// Call is a request for a CallHandler.
type Call struct {
	From    ring.NodeID
	Payload []byte // valid as for a Handler
	// Cancel is canceled when the sender no longer waits for the reply: it canceled the request, its timeout passed,
	// or its stream ended. It is nil if the service does not block.
	Cancel *env.Cancel
	Trace  *Trace // nil unless the request is traced
}

// CallHandler is a Handler for a verb that may take long and checks Call.Cancel, or that adds events to traces.
type CallHandler func(c Call, respond Respond)

// Sender is the peer that sent a message.
type Sender struct {
	Node   ring.NodeID // the id that the peer sent; zero before it is a member
	Addr   netip.Addr  // the peer's address
	Member bool        // the metadata bind Node to Addr; otherwise Node may be forged
}

// AnyHandler is a Handler for a verb that peers may use which are not known as members.
type AnyHandler func(from Sender, payload []byte, respond Respond)

// Canceler is a Transport that can cancel requests.
type Canceler interface {
	// RequestCancelable is Request with cancellation. cancel calls reply with ErrCanceled, unless reply was called
	// before, and notifies the peer.
	RequestCancelable(to ring.NodeID, verb Verb, payload []byte, timeout time.Duration, reply Reply) (cancel func())
}

// RequestCancelable sends a request that ends when cancel is canceled; cancel may be nil. If t is not a Canceler, the
// request continues until its timeout.
func RequestCancelable(t Transport, to ring.NodeID, verb Verb, payload []byte, timeout time.Duration,
	cancel *env.Cancel, reply Reply) {
	c, ok := t.(Canceler)
	if cancel == nil || !ok {
		t.Request(to, verb, payload, timeout, reply)
		return
	}
	// After the reply, the registered function does nothing; it is released with the operation.
	cancel.OnCancel(c.RequestCancelable(to, verb, payload, timeout, reply))
}

// Service defines how a node handles a verb.
type Service struct {
	Verb Verb
	Name string // for logs
	// Blocking means that the handler may read the disk, wait, or hold a lock while doing so. It then runs on a
	// worker. A handler that does not block runs on the goroutine of the peer's stream, before the messages that
	// follow: it must pass blocking work to Transport.Run.
	Blocking bool
	Handler  Handler
	// Call, unless nil, is called instead of Handler by transports that cancel and trace requests.
	Call CallHandler
	// Any, unless nil, is called instead of Handler, also for messages of peers that are not known as members. It
	// must not block. A verb without Any is refused to such peers with CodeUnknownPeer.
	Any AnyHandler
}

// Register registers services with t.
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

// Transport sends messages to other nodes. Implementations copy payload before they return, and call Reply on any
// goroutine, possibly before Request returns. A Reply must not block: it may run on the goroutine of a stream or of a
// timer.
type Transport interface {
	// Send sends a one-way message, which may be lost.
	Send(to ring.NodeID, verb Verb, payload []byte)
	// Request calls reply with the reply, or with an error after timeout.
	Request(to ring.NodeID, verb Verb, payload []byte, timeout time.Duration, reply Reply)
	// Handle registers the handler of a verb. It must be called before the transport starts.
	Handle(Service)
	// Run executes f, which may block and occupies the given number of bytes, on a worker. Workers and waiting work
	// are bounded: ErrOverloaded and ErrClosed mean that f is not called.
	Run(bytes int, f func()) error
}
