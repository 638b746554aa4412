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

	// pageInternal is how many rows a command requests if not every row becomes a row of the result. batchMax bounds
	// the rows that one command requests.
	pageInternal = 5000
	batchMax     = 10000

	// partitionRows is the minimum number of rows that a command requests under PER PARTITION LIMIT if the table has
	// dropped columns. A partition may thus cost this many rows, even if its limit is smaller.
	partitionRows = 100

	// pageBytesMax bounds results that clients do not page, and rows that are sorted: a message may have 256 MiB. The
	// result and its encoded reply together must fit into the memory of a request.
	pageBytesMax = 64 << 20
	unpagedShare = 3

	// pageBytesDefault ends a page, in bytes, in addition to the number of rows that the client requests.
	pageBytesDefault = 1 << 20

	// resultFree is the size of a result, in bytes, that needs no reservation. For rows of at least rowLarge bytes,
	// memory is reserved before the result is built.
	resultFree = 4 << 10
	rowLarge   = 64 << 10

	// orderedOverhead is the memory of a sorted row, in bytes, in addition to its encoding: the slice headers of the
	// row and its keys.
	orderedOverhead = 96

	// hashRowCopies is the memory of the row that represents a group, as a multiple of its encoded size: a cell with
	// 7 encoded bytes or more takes 72 bytes in memory.
	hashRowCopies = 10

	// bufferKeepMax bounds the memory that an idle Buffer keeps.
	bufferKeepMax = 1 << 20
)

// tombstoneWarning returns Cassandra's warning about a read that scanned many tombstones. It is Cassandra's message
// and names Cassandra's setting, although the threshold is fixed here.
func tombstoneWarning(t *schema.Table, cost *request.Cost) string {
	return fmt.Sprintf("Read %d live rows and %d tombstone cells for query on %s.%s (see tombstone_warn_threshold)",
		cost.Rows, cost.Tombstones, t.Keyspace, t.Name)
}
