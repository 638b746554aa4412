package query

import "cmp"

// The bounds of a Processor, with Cassandra's defaults (cassandra.yaml) where it has them.
const (
	// preparedBytesMax is the capacity of the cache of prepared statements, in bytes: the plan of a small statement
	// takes about 2 KiB, so several thousand fit.
	preparedBytesMax = 16 << 20
	// textsMax bounds the statements in text form that are cached with their plan.
	textsMax = 1024
	// textKeepMax is the maximum size of a cached text: longer texts mostly contain literals and are unlikely to be
	// repeated.
	textKeepMax = 4096

	// Thresholds for batches: the size of the values, in bytes, that causes a warning or an error, and the number of
	// partitions from which an unlogged batch causes a warning.
	batchWarnBytes  = 5 << 10
	batchFailBytes  = 50 << 10
	batchPartitions = 10
	// The number of markers is a [short] in the protocol.
	markersMax = 65535
)

// defaultLimits returns l with defaults for zero fields.
func defaultLimits(l Limits) Limits {
	l.PreparedBytesMax = cmp.Or(l.PreparedBytesMax, preparedBytesMax)
	l.BatchWarnBytes = cmp.Or(l.BatchWarnBytes, batchWarnBytes)
	l.BatchFailBytes = cmp.Or(l.BatchFailBytes, batchFailBytes)
	l.BatchPartitions = cmp.Or(l.BatchPartitions, batchPartitions)
	return l
}
