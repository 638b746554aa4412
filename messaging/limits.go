package messaging

import "time"

// Limits bound the resources that a transport uses.
type Limits struct {
	// QueuedBytes bounds the bytes that wait to be written to a peer. At 100 MB/s the default takes a third of a
	// second, longer than any stall that a write timeout of 2 s allows to wait for.
	QueuedBytes int
	// QueuedTotal bounds the bytes that wait to be written to all peers together, not counting the first frame of each
	// peer. Zero means no bound.
	QueuedTotal int
	// Pending bounds the requests that wait for a peer's reply. The default, 32768, is the number of streams of one
	// connection of the native protocol, all going to one replica.
	Pending int
	// Handlers bounds the blocking requests of a peer that wait or run: a quarter of WorkWaiting, so that one peer
	// cannot use the capacity of all others.
	Handlers int
	// Workers is the number of goroutines that run blocking work, for all peers and this node. Each has one read in
	// progress, and a disk reaches its throughput with fewer.
	Workers int
	// WorkWaiting bounds the tasks that wait for a worker, and WorkBytes the memory of the waiting and the running
	// tasks. At 20,000 reads a second the last one waits for 0.2 s.
	WorkWaiting, WorkBytes int
	// FrameBytes is the maximum size of a frame: a mutation of 16 MiB, and space for the rest of its request.
	FrameBytes int
	// ReceiveBytes bounds the memory of all frames above receiveBufferMax that are being received or handled: four of
	// the maximum size.
	ReceiveBytes int
	// UnknownPeers bounds the open connections whose peers are not known as members: more than all nodes of a large
	// ring that start at once. For a further one, the oldest is closed.
	UnknownPeers int
	// UnknownPeerBytes bounds the bytes that such a connection may send. A join request is under 1 KiB, and the first
	// messages of a new leader are below 64 KiB.
	UnknownPeerBytes int
	// UnknownPeerTime bounds the duration of such a connection. The default is longer than a seed takes to decide about
	// a join request.
	UnknownPeerTime time.Duration
	// MemberHandshakes bounds the TLS handshakes that are in progress with peers at addresses of members: all nodes of
	// a ring may connect at once. StrangerHandshakes and StrangerHandshakeRate, per second, bound those with others. A
	// handshake with a peer that is refused costs 0.2 ms of CPU time, so the default rate is 4 % of a core.
	MemberHandshakes, StrangerHandshakes, StrangerHandshakeRate int
	// DialBackoffMax is the maximum pause between two attempts to connect to a peer.
	DialBackoffMax time.Duration
	// KeepaliveEvery is the interval at which connections are checked. A connection without progress is closed at the
	// check after KeepaliveMissed of them. The default closes it after 15 to 20 s: longer than the pauses of a working
	// process, and shorter than TCP takes to detect it.
	KeepaliveEvery  time.Duration
	KeepaliveMissed int
}

// expireEvery bounds the delay after which a timeout is reported. It is small compared with the shortest timeouts,
// which are tenths of a second.
const expireEvery = 25 * time.Millisecond

// The maximum number of events in the reply to a traced request, and of the bytes of their messages: a read of a page
// and a conditional change have fewer than ten, of at most 200 bytes each.
const (
	traceEventsMax = 64
	traceBytesMax  = 8 << 10
)

// formerGrace is how long a node that has left the ring may still send requests. It is longer than the time that the
// node waits until the others know that it has left.
const formerGrace = 30 * time.Second

// The maximum size of a message of the handshake, which is under 200 bytes, and the time for the handshake of a peer.
const (
	handshakeBytes   = 1 << 10
	handshakeTimeout = 5 * time.Second
)

// handshakeBytesTLS bounds what a peer may send until its TLS handshake and its hello are complete. A chain of three
// certificates is below 4 KiB.
const handshakeBytesTLS = 64 << 10

// receiveBufferTLS is the size of the buffer in front of the decryption of a connection: two records of 16 KiB.
const receiveBufferTLS = 33 << 10

// dialTimeout bounds the opening of a connection with its handshake.
const dialTimeout = 2 * time.Second

// acceptPause is the pause after a failed accept.
const acceptPause = 50 * time.Millisecond

// frameTarget is the size up to which a sender adds messages to a frame: small messages share a checksum, and the frame
// fits into the receive buffer.
const frameTarget = 64 << 10

// The receive buffer of a connection begins with receiveBufferMin bytes and grows up to receiveBufferMax: two frames.
const (
	receiveBufferMin = 8 << 10
	receiveBufferMax = 128 << 10
)

// sendBufferKept is the maximum capacity of a send buffer that a link keeps for reuse.
const sendBufferKept = 512 << 10

// writeMax bounds the bytes of one write, so that the keepalive sees progress while megabytes are queued.
const writeMax = 1 << 20

// refusalsEvery is the minimum interval between log messages about refusals.
const refusalsEvery = 10 * time.Second

// DefaultLimits returns the limits of a node.
func DefaultLimits() Limits {
	return Limits{
		QueuedBytes:      32 << 20,
		QueuedTotal:      256 << 20,
		Pending:          32768,
		Handlers:         1024,
		Workers:          256,
		WorkWaiting:      4096,
		WorkBytes:        64 << 20,
		FrameBytes:       64 << 20,
		ReceiveBytes:     256 << 20,
		UnknownPeers:     256,
		UnknownPeerBytes: 1 << 20,
		UnknownPeerTime:  10 * time.Second,
		MemberHandshakes: 256, StrangerHandshakes: 16, StrangerHandshakeRate: 200,
		DialBackoffMax:  500 * time.Millisecond,
		KeepaliveEvery:  5 * time.Second,
		KeepaliveMissed: 3,
	}
}
