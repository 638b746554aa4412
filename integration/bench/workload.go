package main

import (
	"fmt"
	"math/rand/v2"

	"cqld/integration/cqlclient"
)

// The data: rows of about 200 bytes by id, and partitions of a hundred rows of about 60 bytes.
const (
	pointRows       = 100_000
	slicePartitions = 2_000
	sliceRows       = 100
	textSize        = 60
	tallies         = 10_000 // counters
)

var (
	// The keyspace is created by target.load.
	schemaStatements = []string{
		"CREATE TABLE IF NOT EXISTS bench.point (id bigint PRIMARY KEY, a text, b text, c int, d bigint, e text)",
		"CREATE TABLE IF NOT EXISTS bench.slice (p int, c int, v text, PRIMARY KEY (p, c))",
		"CREATE TABLE IF NOT EXISTS bench.tally (id bigint PRIMARY KEY, n counter)",
	}
	padding = []byte("abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz")[:textSize]
)

// The values are bound, in this order.
const (
	insertPoint = "INSERT INTO bench.point (id, a, b, c, d, e) VALUES (?, ?, ?, ?, ?, ?)"
	selectPoint = "SELECT id, a, b, c, d, e FROM bench.point WHERE id = ?"
	insertSlice = "INSERT INTO bench.slice (p, c, v) VALUES (?, ?, ?)"
	selectSlice = "SELECT c, v FROM bench.slice WHERE p = ?"
	insertOnce  = insertPoint + " IF NOT EXISTS"
	addTally    = "UPDATE bench.tally SET n = n + 1 WHERE id = ?"
	insertBatch = "BEGIN BATCH " + insertSlice + "; " + insertSlice + "; " + insertSlice + "; APPLY BATCH"
)

// operation is one kind of request: its encoded prefix, its values, and the number of rows in its answer, or anyRows.
// values appends the bound values of request n, and must not keep b.
type operation struct {
	prefix []byte
	values func(b []byte, n int64, r *rand.Rand) []byte
	rows   int
}

// anyRows is the number of rows of answers that contain their metadata, which are not decoded. The answer to a
// conditional statement has its metadata, because its columns depend on the outcome.
const anyRows = -1

// workload selects the operation of the n-th request. It is called by all connections concurrently, each with its own
// generator.
type workload func(n int64, r *rand.Rand) *operation

// operations contains the statements prepared on one server. It is not changed after prepare.
type operations struct {
	insert, read, slice, loadSlice, once, tally, batch operation
}

// prepare prepares all statements on a server. Their ids are derived from the text, so another node of the cluster has
// the same ones. consistency is a number of the protocol, for example 4 for QUORUM.
func prepare(address string, consistency uint16) (*operations, error) {
	c, err := cqlclient.Dial(address, 4)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	// The first error is kept, and makes all later calls do nothing.
	prefix := func(text string, values int) []byte {
		if err != nil {
			return nil
		}
		var a *cqlclient.Answer
		if a, err = c.Prepare(text); err != nil {
			return nil
		}
		if a.Err != nil {
			err = fmt.Errorf("%s: %w", text, a.Err)
			return nil
		}
		return appendExecute(nil, a.Prepared.ID, consistency, values)
	}
	ops := &operations{
		insert: operation{prefix: prefix(insertPoint, 6), values: pointValues},
		// The ids of insert and once differ, so that once finds no row.
		once: operation{prefix: prefix(insertOnce, 6), rows: anyRows,
			values: func(b []byte, n int64, r *rand.Rand) []byte {
				return pointValues(b, -1-n, r)
			}},
		tally: operation{prefix: prefix(addTally, 1), values: func(b []byte, _ int64, r *rand.Rand) []byte {
			return appendInt64(b, spread(r.Int64N(tallies)))
		}},
		// A logged batch of rows of three partitions.
		batch: operation{prefix: prefix(insertBatch, 9), values: func(b []byte, n int64, _ *rand.Rand) []byte {
			for i := range int64(3) {
				// Negative partitions, which the slices of reads never have.
				b = appendInt32(b, int32(-1-i-3*(n/sliceRows)))
				b = appendInt32(b, int32(n%sliceRows))
				b = appendValue(b, padding)
			}
			return b
		}},
		read: operation{prefix: prefix(selectPoint, 1), rows: 1, values: func(b []byte, _ int64, r *rand.Rand) []byte {
			// Any row that load has inserted.
			return appendInt64(b, spread(r.Int64N(pointRows)))
		}},
		slice: operation{prefix: prefix(selectSlice, 1), rows: sliceRows,
			values: func(b []byte, _ int64, r *rand.Rand) []byte {
				return appendInt32(b, int32(r.IntN(slicePartitions)))
			}},
		loadSlice: operation{prefix: prefix(insertSlice, 3), values: func(b []byte, n int64, _ *rand.Rand) []byte {
			b = appendInt32(b, int32(n/sliceRows))
			b = appendInt32(b, int32(n%sliceRows))
			return appendValue(b, padding)
		}},
	}
	return ops, err
}

// pointValues appends the values of the n-th row of bench.point. They take about 200 bytes. It draws nothing, so that a
// row that is written again gets the same values.
func pointValues(b []byte, n int64, _ *rand.Rand) []byte {
	b = appendInt64(b, spread(n))
	b = appendValue(b, padding)
	b = appendValue(b, padding[:40])
	b = appendInt32(b, int32(n))
	b = appendInt64(b, n)
	return appendValue(b, padding)
}

// spread maps a counter to an id in a different order. The factor is odd, so that different counters have different
// ids. It is Fibonacci hashing: ids that follow each other are far apart, so inserts are not in the order of ids.
func spread(n int64) int64 { return int64(uint64(n) * 0x9E3779B97F4A7C15) }

// workload returns the workload with a name of the command line. "once" is INSERT IF NOT EXISTS of absent rows. A mixed
// load consists of half writes, 45 % point reads, 5 % slices.
func (o *operations) workload(name string) (workload, error) {
	switch name {
	case "insert":
		return constant(&o.insert), nil
	case "read":
		return constant(&o.read), nil
	case "slice":
		return constant(&o.slice), nil
	case "once":
		return constant(&o.once), nil
	case "counter":
		return constant(&o.tally), nil
	case "batch":
		return constant(&o.batch), nil
	case "mixed":
		// By chance, not in turn, so that the kinds mix in every write of a connection.
		return func(_ int64, r *rand.Rand) *operation {
			switch d := r.IntN(100); {
			// The shares in percent.
			case d < 50:
				return &o.insert
			case d < 95:
				return &o.read
			}
			return &o.slice
		}, nil
	}
	return nil, fmt.Errorf("bench: no workload %q; there are insert, read, slice, mixed, once, counter, batch", name)
}
