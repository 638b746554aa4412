package hints

import (
	"cmp"
	"time"
)

// Limits are the bounds of stored hints and of their replay. Zero means the default.
type Limits struct {
	// BytesPerNode bounds the hints for one node: a node that misses 10,000 writes of 100 bytes in a second is covered
	// for two minutes, one that misses 100 a second for three hours.
	BytesPerNode int64
	// Bytes bounds all hints of this node.
	Bytes int64
	// BufferBytes is the size of buffered hints at which they are written before Flush has passed.
	BufferBytes int
	// Flush is how long hints are buffered before one sync writes them: at most 50 syncs a second for each dead node.
	Flush time.Duration
	// BytesPerSecond limits replay to each node: 4 MiB/s is 3 % of a 1 Gbit/s link; 128 MiB are delivered in half a
	// minute.
	BytesPerSecond int64
	// Retry is the pause of replay after a failure, and the interval at which replay checks whether a node with hints
	// is alive.
	Retry time.Duration
	// Window is how long a hint is kept. The table's gc_grace_seconds applies when it is shorter: an older hint could
	// resurrect deleted data.
	Window time.Duration
}

// withDefaults replaces zero by the defaults.
func (l Limits) withDefaults() Limits {
	l.BytesPerNode = cmp.Or(l.BytesPerNode, 128<<20)
	l.Bytes = cmp.Or(l.Bytes, 512<<20)
	l.BufferBytes = cmp.Or(l.BufferBytes, 256<<10)
	l.Flush = cmp.Or(l.Flush, 20*time.Millisecond)
	l.BytesPerSecond = cmp.Or(l.BytesPerSecond, 4<<20)
	l.Retry = cmp.Or(l.Retry, time.Second)
	l.Window = cmp.Or(l.Window, 3*time.Hour)
	return l
}
