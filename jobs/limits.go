package jobs

import (
	"cmp"
	"time"
)

// Limits bounds a Registry. Zero fields mean the default. The defaults are in withDefaults.
type Limits struct {
	// Running bounds the local jobs that run at the same time, Queued those that wait for a slot. Further jobs are
	// refused.
	Running, Queued int
	// Ended bounds the ended jobs that are kept, including interrupted ones: that many local ones, and that many
	// external ones. The job that ended first is forgotten first.
	Ended int
	// External bounds the external jobs that run. The metadata log has at most as many ring operations as the ring has
	// nodes; further ones are not shown.
	External int
	// StoreEvery is the shortest interval between two stored progress reports of a job. State changes and checkpoints
	// are stored immediately.
	StoreEvery time.Duration
}

func (l Limits) withDefaults() Limits {
	l.Running = cmp.Or(l.Running, 8)
	l.Queued = cmp.Or(l.Queued, 64)
	l.Ended = cmp.Or(l.Ended, 100)
	l.External = cmp.Or(l.External, 1000)
	l.StoreEvery = cmp.Or(l.StoreEvery, 5*time.Second)
	return l
}

const (
	// argsBytesMax bounds the arguments of a job, and its checkpoint. It is sufficient for a thousand table names.
	argsBytesMax = 128 << 10
	// textBytesMax bounds the target, the phase and the error of a job. Longer texts are truncated.
	textBytesMax = 1 << 10
	// recordBytesMax bounds a stored record: arguments and checkpoint in base64, and the texts.
	recordBytesMax = 512 << 10
)
