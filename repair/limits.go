package repair

import (
	"cmp"
	"time"
)

// Limits are the bounds of repairs. Zero means the default.
type Limits struct {
	// BytesPerSecond is how much replicas are made to scan in all, for the repairs of this node: 16 MiB/s
	// are 3 % of a core at the 650 MB/s of storage.Engine.Hash, and 1.4 TB a day.
	BytesPerSecond int64
	// UrgentBytesPerSecond is the same for the ranges for which hints were lost, apart from the others: a tenth of a core,
	// so that 1 GiB on three replicas is compared in 48 s.
	UrgentBytesPerSecond int64
	// LeafBytes is how much a leaf holds, about: what differs in one row is read again in so much.
	LeafBytes int64
	// LeavesMax bounds the tree: 24 bytes for each of 4096 leaves and replica.
	LeavesMax int
	// PageRows is how many rows one repairing read compares.
	PageRows uint32
	// Timeout is how long a step, a read or a notice may take.
	Timeout time.Duration
	// Attempts is how often a step, a read or a notice is tried, with a pause of RetryPause before the
	// second and twice as much before each further one.
	Attempts   int
	RetryPause time.Duration
	// Rounds is how often a leaf is read until its hashes agree: under writes they may never, as the
	// replicas are not hashed at the same moment.
	Rounds int
	// Margin is how much older than the repair a deletion must be that counts as repaired: what is older
	// has arrived, whatever delays and clocks.
	Margin time.Duration
	// PaxosMargin is how much older than now the state of Paxos must be that is purged: no conditional change is
	// under way for so long, nor are clocks so far apart. What is wrong about it makes changes wait, or their
	// outcome unknown; it does no harm.
	PaxosMargin time.Duration
	// PaxosEvery is how often a table's floor is raised: each time is a command in the cluster's log.
	PaxosEvery time.Duration
}

// withDefaults fills in what is zero.
func (l Limits) withDefaults() Limits {
	l.BytesPerSecond = cmp.Or(l.BytesPerSecond, 16<<20)
	l.UrgentBytesPerSecond = cmp.Or(l.UrgentBytesPerSecond, 64<<20)
	l.LeafBytes = cmp.Or(l.LeafBytes, 256<<10)
	l.LeavesMax = cmp.Or(l.LeavesMax, 4096)
	l.PageRows = cmp.Or(l.PageRows, 1000)
	l.Timeout = cmp.Or(l.Timeout, 30*time.Second)
	l.Attempts = cmp.Or(l.Attempts, 4)
	l.Rounds = cmp.Or(l.Rounds, 3)
	l.RetryPause = cmp.Or(l.RetryPause, time.Second)
	l.Margin = cmp.Or(l.Margin, time.Minute)
	l.PaxosMargin = cmp.Or(l.PaxosMargin, 10*time.Minute)
	l.PaxosEvery = cmp.Or(l.PaxosEvery, 6*time.Hour)
	return l
}

const (
	// stepBytesDefault bounds the bytes hashed in one step: 2 ms of one core, less than a large read takes.
	stepBytesDefault = 1 << 20
	// sessionsMax bounds the sessions whose first step a Service remembers. The notice of a forgotten session lifts no
	// quarantine.
	sessionsMax = 256
)
