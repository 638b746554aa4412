package repair

import (
	"time"

	"cqld/paxos/acceptor"
	"cqld/ring"
	"cqld/row"
	"cqld/scan"
)

// eventKind is the kind of an event.
type eventKind uint8

const (
	// eventStarted is the start of the job.
	eventStarted eventKind = iota
	// eventCancelled is a call of Run.Cancel.
	eventCancelled
	// eventLoaded is the end of the read of the stored position.
	eventLoaded
	// eventScanned reports whether this node has Paxos state of the table.
	eventScanned
	// eventRaised is the end of the raise of the low bound, or of its failure.
	eventRaised
	// eventResumed is the end of a pause.
	eventResumed
	// eventHashed is a replica's answer to a hash request.
	eventHashed
	// eventRead is the end of the read of a page at ALL.
	eventRead
	// eventPurged is a replica's answer to a purge request.
	eventPurged
	// eventSettled is the end of a round of Paxos.
	eventSettled
	// eventNoticed is a replica's answer to a notice.
	eventNoticed
)

// event is an input of a machine.
type event struct {
	kind eventKind
	// Numbers are never used twice in a job, so that a late answer cannot be taken for a later one.
	number uint64    // of the effect to which the event belongs; a machine ignores numbers that it does not await
	now    time.Time // of this node's clock
	err    error     // scanned, hashed, read, purged, settled, noticed
	// truncating reports that a truncation of the table is in progress. It is set if err is.
	truncating bool

	rest        []ring.Range       // loaded: the ranges that are not done
	conditional bool               // scanned
	hashes      HashStep           // hashed
	bytes       int64              // read: size of the page
	more        bool               // read: the leaf has further pages
	purged      acceptor.PurgeStep // purged
}

// effectKind is the kind of an effect.
type effectKind uint8

const (
	// effectLoad reads the stored position. Its event is eventLoaded.
	effectLoad effectKind = iota
	// effectScan asks whether this node has Paxos state of the table. Its event is eventScanned.
	effectScan
	// effectRaise raises the low bound of the table. Its event is eventRaised.
	effectRaise
	// effectPause waits. Its event is eventResumed.
	effectPause
	// effectSpend takes bytes from the budget and waits until it is not overdrawn. Its event is eventResumed.
	effectSpend
	// effectHash sends a hash request. Its event is eventHashed.
	effectHash
	// effectRead reads the next page of a leaf. Its event is eventRead.
	effectRead
	// effectPurge sends a purge request. Its event is eventPurged.
	effectPurge
	// effectSettle executes a round of Paxos in which all replicas vote. Its event is eventSettled.
	effectSettle
	// effectNotify sends a notice. Its event is eventNoticed.
	effectNotify
	// effectStore stores the position after a range.
	effectStore
	// effectProgress calls the progress function.
	effectProgress
	// effectFinish ends the job. It is the last effect.
	effectFinish
)

// effect is an output of a machine.
type effect struct {
	kind   effectKind
	number uint64 // of the event that follows; zero if none follows
	node   ring.NodeID

	after  time.Duration // pause
	bytes  int64         // spend
	micros int64         // raise: the low bound
	hash   *HashRequest  // hash
	// The machine must not touch leaf until the event: the shell moves it in another goroutine.
	leaf   *scan.Cursor           // read; belongs to the effect until its event
	only   []ring.NodeID          // read: the replicas to read; nil means all
	purge  *acceptor.PurgeRequest // purge
	key    row.PartitionKey       // settle
	notice *Notice                // notify
	tokens ring.Range             // store
	report *Report                // progress, finish
	err    error                  // finish
}
