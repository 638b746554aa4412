package query

import (
	"fmt"

	"cqld/request"
	"cqld/schema"
)

// The bounds of a Processor, with Cassandra's defaults (cassandra.yaml) where it has them.
const (
	// preparedBytesMax: a plan of a small statement takes about 2 KiB, so some thousands fit.
	preparedBytesMax = 16 << 20
	// textsMax bounds the statements that came as text and are kept with their plan.
	textsMax = 1024
	// textKeepMax: longer texts are literals through and through and will not come again.
	textKeepMax = 4096

	batchWarnBytes  = 5 << 10
	batchFailBytes  = 50 << 10
	batchPartitions = 10
	markersMax      = 65535

	tombstonesWarn = 1000

	// pageInternal is how many rows are asked for at a time when not every one becomes a row of the
	// result; batchMax bounds what one command asks for.
	pageInternal = 5000
	batchMax     = 10000

	// pageBytesMax ends a page before its rows are all there: a message can be 256 MiB.
	pageBytesMax = 64 << 20

	// keysMax bounds the keys or rows that IN lists multiply to: each takes some 100 bytes.
	keysMax = 1 << 17
)

func defaultLimits(l Limits) Limits {
	if l.PreparedBytesMax == 0 {
		l.PreparedBytesMax = preparedBytesMax
	}
	if l.BatchWarnBytes == 0 {
		l.BatchWarnBytes = batchWarnBytes
	}
	if l.BatchFailBytes == 0 {
		l.BatchFailBytes = batchFailBytes
	}
	if l.BatchPartitions == 0 {
		l.BatchPartitions = batchPartitions
	}
	return l
}

// tombstoneWarning is Cassandra's warning of a read that went through many tombstones.
func tombstoneWarning(t *schema.Table, cost *request.Cost) string {
	return fmt.Sprintf("Read %d live rows and %d tombstone cells for query on %s.%s (see tombstone_warn_threshold)",
		cost.Rows, cost.Tombstones, t.Keyspace, t.Name)
}
