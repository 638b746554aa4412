package entity

import "time"

// Limits bounds the cost of one request. A zero field means the service's value. The server checks odata.Limits when it
// decodes an entity. Raising one raises the memory of a request.
type Limits struct {
	PageEntities int // of one page: 1000
	PageBytes    int // of one page: 4 MiB
	Properties   int // of one entity, without keys and Timestamp: 252
	EntityBytes  int // 1 MiB
	Columns      int // of one table: property names and types that may become columns: 2000
}

// withDefaults returns the limits with the service's values in place of zero fields. l itself does not change.
func (l Limits) withDefaults() Limits {
	set := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	set(&l.PageEntities, 1000)
	set(&l.PageBytes, 4<<20)
	set(&l.Properties, 252)
	set(&l.EntityBytes, 1<<20)
	set(&l.Columns, 2000)
	return l
}

// Bounds on the work of a query. Figures are for one request; the memory pool of the server bounds all of them
// together.
const (
	// rectanglesMax is the maximum number of key ranges derived from a filter; a filter with more is read as fewer,
	// larger ranges. A batch of point reads, which clients write as a disjunction of 100 of them, fits twice. Sorting
	// them takes quadratic time: 65,536 comparisons are 0.3 ms.
	rectanglesMax = 256
	// readsMax is the maximum number of partitions read concurrently: at 1 ms for a quorum, 64,000 partitions per
	// second.
	readsMax = 64
	// readingBytes limits the total size of the partitions read concurrently, estimated by the mean size so far: two
	// pages of entities.
	readingBytes = 8 << 20
	// readsFirst is the number of concurrent reads before the size of partitions is known.
	readsFirst = 4
	// partitionRows is the number of rows requested from a partition before its size is known.
	partitionRows = 64
	// keysMax is the maximum number of partition keys per listing: at most 1 KiB each, 1 MiB in total.
	keysMax = 1024
	// filteredFirst and rowsMax are the initial and maximum number of rows per read if a filter must be applied to
	// them. Storage ends a page at 1 MiB in any case.
	filteredFirst = 128
	rowsMax       = 4096
	// scanBytes bounds the page that is requested from a partition. The first one has rowBytesGuess for each row: with
	// fewer, a page of entities would take several commands.
	scanBytes     = 1 << 20
	rowBytesGuess = 512
	// responseFree is the size of a response from which it is charged.
	responseFree = 16 << 10
	// timeoutLeast is the minimum timeout of a read, even near the end of a page's time: with less, slow replicas would
	// be considered unresponsive.
	timeoutLeast = time.Second
	// altersMax is the maximum number of schema changes for one transaction. A further one is needed each time another
	// writer adds a column with another type first.
	altersMax = 8
)
