package query

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"cqld/request"
	"cqld/schema"
)

// The bounds of a Processor, with Cassandra's defaults (cassandra.yaml) where it has them.
const (
	// preparedBytesMax is the size of the cache: the plan of a small statement takes about 2 KiB, so several thousand
	// fit.
	preparedBytesMax = 16 << 20
	// textsMax bounds the statements in text form that are cached with their plan.
	textsMax = 1024
	// textKeepMax is the maximum size of a cached text: longer ones consist of literals and will not be repeated.
	textKeepMax = 4096

	batchWarnBytes  = 5 << 10
	batchFailBytes  = 50 << 10
	batchPartitions = 10
	markersMax      = 65535
	tombstonesWarn  = 1000

	// sortRowsMax bounds the rows that ORDER BY sorts in memory; their bytes are bounded by pageBytesMax.
	sortRowsMax = 10000

	// hashGroupsMax bounds the groups of GROUP BY a part of the partition key.
	hashGroupsMax = 10000

	// noLimit is the limit of a page that has none.
	noLimit = math.MaxUint32

	// offsetMax bounds OFFSET, whose rows are read within one page.
	offsetMax = 1 << 20

	// pageInternal is the number of rows that are requested at a time if not every row becomes a row of the result.
	// batchMax bounds the rows that one command requests.
	pageInternal = 5000
	batchMax     = 10000

	// pageBytesMax ends a page before it is complete: a message may have 256 MiB.
	pageBytesMax = 64 << 20
)

func defaultLimits(l Limits) Limits {
	l.PreparedBytesMax = cmp.Or(l.PreparedBytesMax, preparedBytesMax)
	l.BatchWarnBytes = cmp.Or(l.BatchWarnBytes, batchWarnBytes)
	l.BatchFailBytes = cmp.Or(l.BatchFailBytes, batchFailBytes)
	l.BatchPartitions = cmp.Or(l.BatchPartitions, batchPartitions)
	return l
}

// tombstoneWarning returns Cassandra's warning about a read that scanned many tombstones.
func tombstoneWarning(t *schema.Table, cost *request.Cost) string {
	return fmt.Sprintf("Read %d live rows and %d tombstone cells for query on %s.%s (see tombstone_warn_threshold)",
		cost.Rows, cost.Tombstones, t.Keyspace, t.Name)
}

// defaultTimeouts returns the timeouts of cassandra.yaml for those that are not set.
func defaultTimeouts(t Timeouts) Timeouts {
	t.Read = cmp.Or(t.Read, 5*time.Second)
	t.Range = cmp.Or(t.Range, 10*time.Second)
	t.CAS = cmp.Or(t.CAS, time.Second)
	t.Write = cmp.Or(t.Write, 2*time.Second)
	t.Counter = cmp.Or(t.Counter, 5*time.Second)
	t.Truncate = cmp.Or(t.Truncate, time.Minute)
	t.Schema = cmp.Or(t.Schema, 8*time.Second) // cqlsh and the Python driver wait 10 s for a reply
	return t
}
