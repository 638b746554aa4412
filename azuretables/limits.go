package azuretables

import (
	"time"

	"cqld/azuretables/odata"
)

// Limits bound what clients can make the node hold. A zero field takes the default beside it.
type Limits struct {
	ConnectionsMax int   // connectionsMax
	BodyBytesMax   int   // of one request: bodyBytesMax
	BodyBytesTotal int64 // of large bodies of all requests together: bodyBytesTotal
	// ReadTimeout is how long a request may take to arrive, from its first byte.
	ReadTimeout  time.Duration // readTimeout
	WriteTimeout time.Duration // writeTimeout
	IdleTimeout  time.Duration // idleTimeout
	// GuestTimeout is how long a connection may take to send a request, and may be idle, until one of its requests was
	// authorized.
	GuestTimeout time.Duration // guestTimeout
	// DrainTimeout is how long connections without a request are kept while the server drains.
	DrainTimeout time.Duration // drainTimeout
	// RequestTimeout is how long a request may take, the answer included: the service's 30 s.
	RequestTimeout time.Duration // requestTimeout
	// QueryTimeout is after how long a query answers with what it has, and a continuation.
	QueryTimeout time.Duration // queryTimeout
	PageEntities int           // of one answer: pageEntities
	// Entity are the limits of bodies and filters.
	Entity odata.Limits
}

const (
	// A connection costs its goroutine's stack (8 to 32 KiB) and two buffers (headerBytesMax and 4 KiB):
	// 4096 cost 200 MiB when all are busy.
	connectionsMax = 4096

	// The request line and headers together. A $filter of 15 comparisons of 1 KiB keys, percent-encoded,
	// is longer; the service itself takes 32 KiB of URL, but no SDK sends more than a few.
	headerBytesMax = 16 << 10

	// A $batch of 4 MiB, and what the limit counts and the body does not: the service measures the payload.
	bodyBytesMax = 4 << 20

	// Where the configuration has entities larger than the service's 1 MiB, their bodies may be larger, too: a
	// character counts 2 bytes and is 6 at most in JSON, \u00e9.
	entityBodyFactor = 3

	// Bodies up to this are read with the request: 4096 connections hold 256 MiB of them at most. Larger
	// ones take their size from the total first.
	smallBodyBytes = 64 << 10
	bodyBytesTotal = 128 << 20

	readTimeout    = 30 * time.Second
	writeTimeout   = 30 * time.Second
	guestTimeout   = 5 * time.Second
	drainTimeout   = time.Second
	newcomerTime   = 250 * time.Millisecond // of a drain, for connections that have sent nothing yet
	lookEvery      = 10 * time.Millisecond
	guestsShare    = 4 // one in so many connections may be of those
	closingMax     = 1024
	idleTimeout    = 5 * time.Minute // SDKs keep connections for 100 s to 4 min
	requestTimeout = 30 * time.Second
	queryTimeout   = 5 * time.Second

	// watchEvery is how often a client whose request takes long is looked after: its request ends when it has gone.
	watchEvery = 25 * time.Millisecond
	// endTimeout is how long requests may take to end after they were canceled.
	endTimeout = 5 * time.Second

	pageEntities = 1000 // of one answer

	// Service properties and access policies: 5 rules of 2 KiB, 5 identifiers of 64 characters.
	xmlBytesMax = 64 << 10
	xmlDepthMax = 8
	corsRules   = 5
	policiesMax = 5
	policyIDMax = 64 // characters
	corsBytes   = 2 << 10
	retention   = 365 // days

	// One bucket is 24 bytes; 8 × 8192 of them are 1.5 MiB, and stand for as many partitions in use in the
	// same second.
	bucketSets = 8192
	bucketWays = 8

	// Buffers of answers beyond this are not kept for the next one: a page may have 4 MiB, one of 1000 entities
	// of 1 KB has 1. Those that nobody uses are gone two garbage collections later.
	responseKeep = 2 << 20
	// So are those of requests: a batch of a hundred entities of 1 KB has 130 KB.
	bodyKeep = 256 << 10

	// Room for the properties of a changeset's operations is made for so many at a time: 64 KiB.
	roomProperties = 1000

	dateSkew = 15 * time.Minute // between a signed request's date and now

	deletePage = 100 // entities that a delete by filter deletes in one transaction
)

func (l Limits) withDefaults() Limits {
	set(&l.ConnectionsMax, connectionsMax)
	l.Entity = l.Entity.WithDefaults()
	set(&l.BodyBytesMax, min(max(bodyBytesMax, entityBodyFactor*l.Entity.EntityBytes), bodyBytesTotal))
	set(&l.BodyBytesTotal, bodyBytesTotal)
	set(&l.ReadTimeout, readTimeout)
	set(&l.WriteTimeout, writeTimeout)
	set(&l.IdleTimeout, idleTimeout)
	set(&l.GuestTimeout, guestTimeout)
	set(&l.DrainTimeout, drainTimeout)
	set(&l.RequestTimeout, requestTimeout)
	set(&l.QueryTimeout, queryTimeout)
	set(&l.PageEntities, pageEntities)
	return l
}

func set[T int | int64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}
