package repair

import (
	"cmp"
	"time"
)

// Limits bounds the repairs of a Repairer. Zero fields mean the default.
type Limits struct {
	// BytesPerSecond limits the bytes that all replicas together scan for repairs of this node. The default, 16 MiB/s,
	// is 3 % of a core at the 650 MB/s of storage.Engine.Hash, and 1.4 TB a day.
	BytesPerSecond int64
	// UrgentBytesPerSecond is a separate limit for ranges whose hints were lost. The default is a tenth of a core: 1
	// GiB on three replicas is compared in 48 s.
	UrgentBytesPerSecond int64
	// LeafBytes is the approximate size of a leaf. A difference in one row causes a read of one leaf.
	LeafBytes int64
	// LeavesMax bounds the tree: 24 bytes for each of 4096 leaves and replica.
	LeavesMax int
	// PageRows bounds the rows of one read at ALL.
	PageRows uint32
	// Timeout bounds one step, read or notice.
	Timeout time.Duration
	// Attempts bounds the attempts of a step, read or notice. The pause before the second is RetryPause, and doubles
	// with each further one.
	Attempts   int
	RetryPause time.Duration
	// Rounds bounds the reads of a leaf until its hashes agree. Under writes they may never agree, because replicas are
	// not hashed at the same moment.
	Rounds int
	// Margin is how much older than the repair a deletion must be to count as repaired. It covers delays and clock
	// offsets.
	Margin time.Duration
	// Settling is how long after a repair tombstones stay that it allows to purge: longer than any read takes that
	// began before its end. With a shorter time, such a read may resurrect a row, if a replica missed the deletion for
	// longer than gc_grace. ScyllaDB has such a delay, too (propagation_delay_in_seconds, 1 h). The default is a
	// minute.
	Settling time.Duration
	// PaxosMargin is the age of Paxos state that may be purged: longer than any conditional change is under way, and
	// than clock offsets. When it is too small, changes wait or end with an unknown outcome; no data are lost.
	PaxosMargin time.Duration
	// PaxosEvery is the interval at which a table's Paxos low bound is raised. Each time is an entry in the metadata
	// log.
	PaxosEvery time.Duration
}

// withDefaults replaces zero fields.
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
	l.Settling = l.SettlingTime()
	l.PaxosMargin = cmp.Or(l.PaxosMargin, 10*time.Minute)
	l.PaxosEvery = cmp.Or(l.PaxosEvery, 6*time.Hour)
	return l
}

// SettlingTime returns Settling or its default. The History needs it before a Service exists.
func (l Limits) SettlingTime() time.Duration { return cmp.Or(l.Settling, time.Minute) }

const (
	// stepBytesDefault bounds the bytes hashed in one step: 2 ms of one core, less than a large read takes.
	stepBytesDefault = 1 << 20
	// sessionsMax bounds the sessions whose first step a Service remembers. The notice of a forgotten session lifts no
	// quarantine.
	sessionsMax = 256
)
