package azuretables

import (
	"time"

	"cqld/azuretables/odata"
)

// Limits bounds the resources that clients can use. A zero field means the default named beside it. They are for each
// server, not for each account.
type Limits struct {
	ConnectionsMax           int // ConnectionsMax
	ConnectionsPerAddressMax int // no bound

	BodyBytesMax   int   // of one request: bodyBytesMax; at most BodyBytesTotal
	BodyBytesTotal int64 // of large bodies of all requests together: bodyBytesTotal
	// ReadTimeout limits how long a request may take to arrive, from its first byte.
	ReadTimeout  time.Duration // readTimeout
	WriteTimeout time.Duration // writeTimeout
	IdleTimeout  time.Duration // idleTimeout
	// NewcomerTimeout limits how long a connection may take to send a request, and how long it may be idle, until one
	// of its requests is authorized.
	NewcomerTimeout time.Duration // newcomerTimeout
	// DrainTimeout limits how long connections without a request stay open while the server drains, and NewcomerWait
	// does for those that have not sent anything yet.
	DrainTimeout time.Duration // drainTimeout
	NewcomerWait time.Duration // newcomerWait
	// RequestTimeout limits the duration of a request including its response; the service's is 30 s.
	RequestTimeout time.Duration // requestTimeout
	// QueryTimeout is the time after which a query returns its results so far and a continuation.
	QueryTimeout time.Duration // queryTimeout
	PageEntities int           // of one response: pageEntities
	// Entity contains the limits of bodies and filters.
	Entity odata.Limits
}

const (
	// ConnectionsMax is the default number of connections. A connection costs ConnectionBytes and its goroutine's stack
	// of 8 to 32 KiB: 4,096 busy connections cost 400 MiB. Nodes with little memory have fewer.
	ConnectionsMax = 4096

	// headerBytesMax limits the request line and headers together, as in the service. Clients send a $filter that
	// names a hundred keys; a $filter alone may have Limits.FilterBytes, percent-encoded.
	headerBytesMax   = 64 << 10
	writeBufferBytes = 4 << 10

	// ConnectionBytes is the size of the buffers of a connection.
	ConnectionBytes = headerBytesMax + writeBufferBytes

	// bodyBytesMax is the service's limit on a $batch, 4 MiB, which it measures on the payload.
	bodyBytesMax = 4 << 20

	// entityBodyFactor: if the configuration allows entities larger than the service's 1 MiB, their bodies may be
	// larger, too: a character counts 2 bytes and takes at most 6 in JSON (\u00e9).
	entityBodyFactor = 3

	// smallBodyBytes: bodies up to this size are read with the request: 4096 connections hold 256 MiB of them at most.
	// Larger ones first reserve their size from the total.
	smallBodyBytes = 64 << 10
	bodyBytesTotal = 128 << 20

	readTimeout            = 30 * time.Second
	writeTimeout           = 30 * time.Second
	newcomerTimeout        = 5 * time.Second
	drainTimeout           = time.Second
	newcomerWait           = 250 * time.Millisecond
	disconnectPollInterval = 10 * time.Millisecond
	newcomersShare         = 4 // the newcomers are at most 1/newcomersShare of all connections
	closingMax             = 1024
	idleTimeout            = 5 * time.Minute // SDKs keep connections for 100 s to 4 min
	requestTimeout         = 30 * time.Second
	queryTimeout           = 5 * time.Second

	// watchEvery is the interval of checks whether the client of a running request has disconnected, which cancels the
	// request.
	watchEvery = 25 * time.Millisecond
	// endTimeout limits how long requests may take to end after they were canceled.
	endTimeout = 5 * time.Second

	pageEntities = 1000 // of one response

	// xmlBytesMax limits service properties and access policies: 5 rules of 2 KiB, 5 identifiers of 64 characters.
	xmlBytesMax = 64 << 10
	xmlDepthMax = 8
	corsRules   = 5
	policiesMax = 5
	policyIDMax = 64 // characters
	corsBytes   = 2 << 10
	retention   = 365 // days

	// bucketSets: one bucket is 24 bytes; 8 × 8192 of them are 1.5 MiB, and cover as many partitions in use in the same
	// second.
	bucketSets = 8192
	bucketWays = 8

	// While requests wait for memory, clients that have not read anything of writePart bytes for stuckGrace are
	// disconnected. Otherwise responses are written in parts of writeLarge bytes: each part costs a system call and
	// wakes the client, in all 7 % of the processor time of a page of 1 MB.
	writePart  = 128 << 10
	writeLarge = 2 << 20
	stuckGrace = time.Second
	// responseKeep: response buffers larger than this are not reused: a page may have 4 MiB, one of 1000 entities of 1
	// KB has 1. The garbage collector frees unused ones after two cycles.
	responseKeep = 2 << 20
	// bodyKeep is the same limit for request buffers: a batch of a hundred entities of 1 KB has 130 KB.
	bodyKeep = 256 << 10

	// propertyChunk is the maximum number of properties of a changeset for which memory is allocated at a time: 64 KiB.
	propertyChunk = 1000

	dateSkew = 15 * time.Minute // maximum difference between a signed request's date and the server's clock

	deletePage = 100 // entities that a delete by filter deletes in one transaction
)

// withDefaults returns the limits with defaults in place of zero fields; l itself does not change. It is called once,
// by New.
func (l Limits) withDefaults() Limits {
	set(&l.ConnectionsMax, ConnectionsMax)
	l.Entity = l.Entity.WithDefaults()
	set(&l.BodyBytesTotal, bodyBytesTotal)
	// Computed from Entity, whose defaults must be set first.
	set(&l.BodyBytesMax, max(bodyBytesMax, entityBodyFactor*l.Entity.EntityBytes))
	// A body that exceeds the total never gets its memory. It is too large, and the client must not retry.
	l.BodyBytesMax = int(min(int64(l.BodyBytesMax), l.BodyBytesTotal))
	set(&l.ReadTimeout, readTimeout)
	set(&l.WriteTimeout, writeTimeout)
	set(&l.IdleTimeout, idleTimeout)
	set(&l.NewcomerTimeout, newcomerTimeout)
	set(&l.DrainTimeout, drainTimeout)
	set(&l.NewcomerWait, newcomerWait)
	set(&l.RequestTimeout, requestTimeout)
	set(&l.QueryTimeout, queryTimeout)
	set(&l.PageEntities, pageEntities)
	return l
}

// set sets a zero field to its default.
func set[T int | int64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}
