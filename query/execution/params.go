package execution

import (
	"time"

	"cqld/internal/wire"
)

// Params are the parameters of a statement (native protocol v5 §4.1.4). Slices belong to the caller and are not kept
// after the call.
type Params struct {
	Values           []wire.Value
	Names            []string // names of Values; nil if they are positional
	PageSize         int32    // rows; zero or less disables paging
	PagingState      []byte   // nil means from the beginning
	Timestamp        int64    // µs, when HasTimestamp
	HasTimestamp     bool
	timeout          time.Duration // set by USING TIMEOUT; zero means the configured timeouts
	stated           bool          // set by USING of a batch, not by a driver that sends a timestamp with every request
	Keyspace         string        // v5; empty means the session's
	NowInSeconds     int64         // v5, when HasNow
	HasNow           bool
	SkipMetadata     bool
	ResultMetadataID []byte // v5 EXECUTE
}

// Stated reports whether USING of a batch has set the timestamp. It does not report timestamps that the driver sent
// with the request.
func (p *Params) Stated() bool { return p.stated }

// WithTimestamp returns p with the timestamp of a batch. stated means that its USING has set it. p is not changed: the
// statements of a batch share it.
func (p *Params) WithTimestamp(timestamp int64, stated bool) *Params {
	with := *p
	with.HasTimestamp, with.Timestamp, with.stated = true, timestamp, stated
	return &with
}

// Timeout returns the timeout of USING; zero means that the configured ones apply.
func (p *Params) Timeout() time.Duration { return p.timeout }

// Moment is the time of a statement. Both fields count from 1970, and differ if the request contains its own time.
type Moment struct {
	// Millis is the time for functions such as now(). It always comes from the clock, never from the request.
	Millis int64
	// Seconds determines which cells have expired, and the expiry of cells written with a time to live. A v5 request
	// may set it.
	Seconds int64
}
