package rebalance

import (
	"time"

	"cqld/coordinator"
)

// streamEventKind is the kind of an event of Streams.
type streamEventKind uint8

const (
	// streamStarted is a call of Start.
	streamStarted streamEventKind = iota
	// streamCancelled is a call of Cancel.
	streamCancelled
	// streamStopped is a call of Close.
	streamStopped
	// streamLoaded is the end of the read of the stored position.
	streamLoaded
	// streamAnswered is the source's reply, or the failure of the request.
	streamAnswered
	// streamWritten is the end of the write of a block.
	streamWritten
	// streamResumed is the end of the pause after a failure.
	streamResumed
)

// streamEvent is an input of a streamMachine.
type streamEvent struct {
	kind    streamEventKind
	now     time.Duration // monotonic
	id      string        // cancelled
	session *session      // all others except stopped
	number  uint64        // of the effect: loaded, answered, written, resumed
	// required are the truncations of the table that a source must have applied, and count the number of its
	// truncations on this node: loaded, answered, written, resumed.
	required []coordinator.Truncation
	count    uint64
	err      error          // loaded, answered, written
	position streamPosition // loaded
	reply    *streamReply   // answered, written
	// written: bytes that the block added to the file, and whether the file and its position are stored.
	added     int64
	committed bool
}

// streamPosition is the stored position of a session. The zero value is the start of the range.
type streamPosition struct {
	ended bool
	bytes int64
	after []byte
}

// streamEffectKind is the kind of an effect of Streams.
type streamEffectKind uint8

const (
	// streamLoad reads the stored position. Its event is streamLoaded.
	streamLoad streamEffectKind = iota
	// streamRequestBlock requests a block. Its event is streamAnswered.
	streamRequestBlock
	// streamWrite adds a block to the file, and ingests the file when it is large enough or the block is the last. Its
	// event is streamWritten.
	streamWrite
	// streamAbort discards the incomplete file.
	streamAbort
	// streamPause waits. Its event is streamResumed.
	streamPause
	// streamProgress calls the progress function.
	streamProgress
	// streamFinish calls the function for the end. It is the last effect of a session, except streamAbort.
	streamFinish
)

// streamEffect is an output of a streamMachine.
type streamEffect struct {
	kind     streamEffectKind
	session  *session
	number   uint64                   // load, request, write, pause
	first    bool                     // request: the source has not replied since the start
	position []byte                   // request: the key after which the block begins
	required []coordinator.Truncation // request
	reply    *streamReply             // write
	count    uint64                   // write: of truncations when the block was requested
	bytes    int64                    // write: before the block; progress: in total
	after    time.Duration            // pause
	err      error                    // finish
}
