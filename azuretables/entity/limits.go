package entity

import "time"

// Limits bound what one request may cost. Zero fields get the service's values.
type Limits struct {
	PageEntities int // of one answer: 1000
	PageBytes    int // of one answer: 4 MiB
	Properties   int // of one entity, without keys and Timestamp: 252
	EntityBytes  int // 1 MiB
	Columns      int // of one table: property names and types that may become columns: 2000
}

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

// Bounds of a query's work.
const (
	// boxesMax is how many ranges of keys a filter may be taken apart into; what would need more is read
	// as fewer, larger ones. A batch of points, which programs write as an or of 100 of them, fits twice.
	// Ordering them costs their square: 65,536 comparisons are 0.3 ms.
	boxesMax = 256
	// readsMax is how many partitions are read at once: at 1 ms for a quorum, 64,000 partitions a second.
	readsMax = 64
	// readingBytes is how much the partitions that are read at once may have together, by the mean of those
	// before: two pages of entities.
	readingBytes = 8 << 20
	// readsFirst is how many are read at once before it is known how large they are.
	readsFirst = 4
	// partitionRows is how many rows a partition is asked for before it is known how large they are.
	partitionRows = 64
	// keysMax is how many partition keys are asked for at once, at most: 1 KiB each at the most, 1 MiB.
	keysMax = 1024
	// filteredFirst and rowsMax are how many rows are asked for at once where a filter decides how many of
	// them count, at first and at most. Storage ends a page at 1 MiB anyway.
	filteredFirst = 128
	rowsMax       = 4096
	// timeoutLeast is what a read may take however late in a page it is begun: with less, slow replicas would
	// look like silent ones.
	timeoutLeast = time.Second
	// altersMax is how often columns are added for one transaction: each time another one was faster with
	// another type.
	altersMax = 8
)
