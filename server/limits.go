package server

import (
	"time"

	"cqld/internal/memory"
	"cqld/server/frame"
)

// Limits bound the resources that clients can use on the node. A zero field means the default beside it. Sizes are in
// bytes. The comment of each constant contains the arithmetic of the default.
type Limits struct {
	// FrameBytesMax is the size of the largest request (native_transport_max_frame_size): of its body in protocol v5,
	// and of its frame in earlier versions.
	FrameBytesMax int // frameBytesMax
	// InFlightBytesMax bounds the requests and unsent replies of all connections together.
	InFlightBytesMax int64 // inFlightBytesMax
	// ReceivingBytesMax bounds the incomplete requests of all connections, in addition to InFlightBytesMax.
	ReceivingBytesMax int64 // receivingBytesMax
	// ConnectionBytesMax bounds the requests and unsent replies of one connection.
	ConnectionBytesMax int64 // 5 × FrameBytesMax, at most InFlightBytesMax
	// ConnectionsMax bounds the connections (native_transport_max_concurrent_connections).
	ConnectionsMax int // connectionsMax
	// ConnectionsPerAddressMax bounds the connections of one client address
	// (native_transport_max_concurrent_connections_per_ip).
	ConnectionsPerAddressMax int // no bound
	// AddressBytesMax bounds the requests and unsent replies of the connections of one client address
	// (native_transport_max_request_data_in_flight_per_ip). It is at least FrameBytesMax.
	AddressBytesMax int64 // no bound
	// RequestsPerSecond bounds the requests of all connections (native_transport_max_requests_per_second). Clients are
	// slowed down, or refused if they have chosen THROW_ON_OVERLOAD.
	RequestsPerSecond int // no bound
	// IdleTimeout is how long a client may send and receive nothing (native_transport_idle_timeout).
	IdleTimeout time.Duration // no bound
	// VersionMax is the newest version of the protocol (native_transport_max_negotiable_protocol_version).
	VersionMax frame.Version // V5
	// OlderVersionsRefused means that clients must use VersionMax (native_transport_allow_older_protocols: false).
	OlderVersionsRefused bool
	// HandshakesMax bounds the connections that are not authenticated yet. The oldest is closed for a further one.
	HandshakesMax int // handshakesMax
	// WorkersMax bounds the requests being executed.
	WorkersMax int // workersMax
	// QueueMax bounds the requests that wait for a worker.
	QueueMax int // queueMax
	// HandshakeTimeout is how long a client may take until READY.
	HandshakeTimeout time.Duration // handshakeTimeout
	// ReceiveTimeout is how long a client may take to send more of a request that already uses memory.
	ReceiveTimeout time.Duration // receiveTimeout
	// DrainTimeout is how long a connection that is never quiet is read while the
	// server drains.
	DrainTimeout time.Duration // drainTimeout
	// DrainHold is how long an answer is held while the server drains, so that the
	// client of the connection stops sending.
	DrainHold time.Duration // drainHold
	// CancelTimeout is how long canceled requests may take to end when the server is closed.
	CancelTimeout time.Duration // cancelTimeout
	// WriteTimeout is how long one write to a client may take. A client that does not read for that long is
	// disconnected.
	WriteTimeout time.Duration // writeTimeout
}

const (
	// Cassandra 5's default; the protocol's own cap is 256 MiB.
	frameBytesMax = 16 << 20

	// 192 MiB = 12 frames of the largest size, or 300,000 requests of 300 bytes
	// with their overhead: over a second of what two cores can execute.
	inFlightBytesMax = 192 << 20

	// Three frames of the largest size, and 256 first parts of bodyStep: one part in smallShare is for these and for
	// small bodies. Together with inFlightBytesMax it is 256 MiB.
	receivingBytesMax = 64 << 20
	smallShare        = 4

	// A connection is read until 80 % of its bound are in use. With five frames of the largest size, the remaining 20
	// % hold one more, so the requests of a lone client are slowed down and never refused.
	connectionFrames = 5

	// An idle connection costs its reader's stack (8 KiB), this package's structures and a read buffer: under 16 KiB,
	// so 65,536 connections cost 1 GiB.
	connectionsMax = 65536

	// Each holds at most handshakeFrameMax plus a read buffer, for at most
	// HandshakeTimeout: 1024 × (16 + 32) KiB = 48 MiB.
	handshakesMax = 1024

	// A worker waits while replicas and disks answer; its stack is 8 to 32 KiB,
	// so 1024 cost 32 MiB at most. By Little's law they carry 1024 requests
	// in flight: 500,000/s at 2 ms each.
	workersMax = 1024

	// One connection may have 32,768 streams in flight, and that many requests
	// of 1 KiB are an eighth of inFlightBytesMax.
	queueMax = 32768

	// Before a client is authenticated it needs STARTUP and AUTH_RESPONSE, both
	// under 1 KiB.
	handshakeFrameMax = 16 << 10
	handshakeTimeout  = 5 * time.Second

	// Idle deadlines may be early by 1/idleSlack of the timeout.
	idleSlack = 16

	receiveTimeout = 30 * time.Second
	writeTimeout   = 30 * time.Second
	drainTimeout   = 4 * time.Second
	cancelTimeout  = 5 * time.Second

	// Held answers are sent after drainHold (package drain).
	drainHold    = 600 * time.Millisecond
	releaseLooks = 16 // in one drainHold

	// The cost of a request besides its body: job, decoded values, reply header.
	requestOverhead = 256

	// Decoding a body of this size takes up to 13 KiB, which are not reserved: batches of the smallest statements take
	// 26 times their size. WorkersMax bounds them: 1,024 take 13 MiB.
	decodedFree = 512

	// Bodies are allocated and reserved in steps that double from here, so that a header alone reserves no more than
	// this.
	bodyStep = 64 << 10

	// Workers that are kept for the next burst: their stacks are 256 × 16 KiB = 4 MiB.
	workersIdleMax = 256

	// A connection with more unsent bytes of replies executes no further requests: two pages of the default size.
	unsentMax = 2 << 20
	unparkMax = 8

	// While requests wait for memory, clients that have not read anything of a write of at most 128 KiB for this time
	// are disconnected, until a part of the memory is free.
	stuckGrace = time.Second
	stuckShare = 4

	// The minimum memory that a request may hold, in frames of the largest size.
	frameCopies = 2

	// Replies up to this size exist before they are charged, such as replies to writes, which cannot be refused after
	// they were applied.
	replyFree = 4 << 10

	// A reply without its rows: header and metadata of some columns.
	replyHead = 1 << 10

	// Larger output buffers are not kept for reuse.
	outputBufferKeep = 64 << 10

	// After a protocol error that ends a connection, its input is read and dropped for this time and up to this size,
	// so that the error is not lost to a reset.
	lingerTime  = time.Second
	lingerBytes = 1 << 20

	// The pause between the end of connections for requests and the event on other connections: a few round trips,
	// because there is no order between connections.
	leaveGap = 100 * time.Millisecond
)

// withDefaults returns the limits with defaults for zero fields. ConnectionBytesMax depends on limits that are set
// before it.
func (l Limits) withDefaults() Limits {
	setInt(&l.FrameBytesMax, frameBytesMax)
	setInt64(&l.InFlightBytesMax, inFlightBytesMax)
	setInt64(&l.ReceivingBytesMax, receivingBytesMax)
	// After FrameBytesMax and InFlightBytesMax, because its default depends on them.
	setInt64(&l.ConnectionBytesMax, min(connectionFrames*int64(l.FrameBytesMax), l.InFlightBytesMax))
	setInt(&l.ConnectionsMax, connectionsMax)
	setInt(&l.HandshakesMax, handshakesMax)
	if l.VersionMax == 0 {
		l.VersionMax = frame.V5
	}
	setInt(&l.WorkersMax, workersMax)
	setInt(&l.QueueMax, queueMax)
	setDuration(&l.HandshakeTimeout, handshakeTimeout)
	setDuration(&l.ReceiveTimeout, receiveTimeout)
	setDuration(&l.DrainTimeout, drainTimeout)
	setDuration(&l.DrainHold, drainHold)
	setDuration(&l.CancelTimeout, cancelTimeout)
	setDuration(&l.WriteTimeout, writeTimeout)
	return l
}

// memory returns the limits of the memory of requests. Any request may be as large as a frame with its changes.
func (l *Limits) memory() memory.Limits {
	return memory.Limits{Bytes: l.InFlightBytesMax, Reserve: max(l.InFlightBytesMax/2,
		frameCopies*int64(l.FrameBytesMax))}
}

// setInt sets a field that is zero.
func setInt(field *int, value int) {
	if *field == 0 {
		*field = value
	}
}

// setInt64 sets a field that is zero.
func setInt64(field *int64, value int64) {
	if *field == 0 {
		*field = value
	}
}

// setDuration sets a field that is zero.
func setDuration(field *time.Duration, value time.Duration) {
	if *field == 0 {
		*field = value
	}
}
