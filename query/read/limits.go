package read

import (
	"fmt"
	"math"

	"cqld/request"
	"cqld/schema"
)

// The bounds of a SELECT.
const (
	// tombstonesWarn is the number of tombstones from which a read causes a warning (cassandra.yaml's default).
	tombstonesWarn = 1000

	// sortRowsMax bounds the rows that ORDER BY sorts in memory; their bytes are bounded by pageBytesMax.
	sortRowsMax = 10000

	// hashGroupsMax bounds the groups of GROUP BY a part of the partition key.
	hashGroupsMax = 10000

	// nearestMax is the greatest LIMIT of a SELECT with ANN OF.
	nearestMax = 1000

	// noLimit is the limit of a page that has none. It is greater than every count of rows.
	noLimit = math.MaxUint32

	// offsetMax bounds OFFSET, whose rows are read within one page.
	offsetMax = 1 << 20

	// pageInternal is the number of rows that are requested at a time if not every row becomes a row of the result.
	// batchMax bounds the rows that one command requests.
	pageInternal = 5000
	batchMax     = 10000

	// partitionRows is the least number of rows that is requested at a time where partitions have a limit and the table
	// has dropped columns. It is what each partition may cost, whatever its limit.
	partitionRows = 100

	// pageBytesMax bounds results that clients do not page, and rows that are sorted: a message may have 256 MiB. A
	// result and its reply are a part of what a request may hold.
	pageBytesMax = 64 << 20
	unpagedShare = 3

	// pageBytesDefault ends a page, like the rows that the client asks for (query_page_size).
	pageBytesDefault = 1 << 20

	// resultFree is the size of a result from which it is charged; memory for the result of a row of rowLarge is
	// reserved before it is made.
	resultFree = 4 << 10
	rowLarge   = 64 << 10

	// orderedOverhead is what a row that is sorted takes besides its bytes: slices of it and of its keys.
	orderedOverhead = 96

	// hashRowCopies is what a row that represents a group takes, in its encoded size: a cell of 7 bytes and more has
	// 72.
	hashRowCopies = 10

	// bufferKeepMax bounds the memory that an idle Buffer keeps.
	bufferKeepMax = 1 << 20
)

// tombstoneWarning returns Cassandra's warning about a read that scanned many tombstones. The message is Cassandra's,
// whose setting has that name; here the threshold is fixed.
func tombstoneWarning(t *schema.Table, cost *request.Cost) string {
	return fmt.Sprintf("Read %d live rows and %d tombstone cells for query on %s.%s (see tombstone_warn_threshold)",
		cost.Rows, cost.Tombstones, t.Keyspace, t.Name)
}
