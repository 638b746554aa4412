package storage

import (
	"bytes"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/backlog"
	"cqld/storage/bounds"
	"cqld/storage/failure"
	"cqld/storage/latch"
	"cqld/storage/rowkey"
)

// group is the mutations that are committed together: one batch, one fsync.
type group struct {
	batch     *pebble.Batch
	bytes     int  // as counted in the queue
	committed bool // the batch is empty again
	stripes   uint64
	tokens    []ring.Token
	headers   []schema.StorageID // tables whose header flag the batch sets
	ceilings  bounds.Raised      // that the batch contains
	tables    []schema.StorageID // whose rows the batch changes
	sync      bool               // someone waits for the disk
	began     time.Duration      // when Pebble got the batch, if sync
	deleted   []backlog.Span     // of the deletions of partitions and ranges
	early     []func(error)      // called when the group is committed
	synced    []func(error)      // called when the group is on disk
}

func (g *group) reset() {
	// The slices keep their memory, because a group is reused for each commit.
	batch := g.batch
	if !g.committed {
		batch = nil // a failed commit may still use it
	}
	*g = group{
		batch:  batch,
		tokens: g.tokens[:0], headers: g.headers[:0], early: clearFuncs(g.early), synced: clearFuncs(g.synced),
		tables: g.tables[:0],
	}
}

func clearFuncs(fs []func(error)) []func(error) {
	// The elements are cleared, because otherwise the reused slice would keep requests alive.
	clear(fs)
	return fs[:0]
}

// notify calls every callback in fs with the outcome. The callbacks are not part of the commit: a panic ends only their
// own request.
func (c *committer) notify(fs []func(error), err error) {
	for _, f := range fs {
		c.notifyOne(f, err)
	}
}

func (c *committer) notifyOne(f func(error), err error) {
	defer c.opts.Guard.Recover("answer to a write", nil)
	f(err)
}

// checkMutation returns the number of bytes of the operations of m and the greatest timestamp of its rows, or an error
// if m cannot be applied.
func checkMutation(m *row.Mutation) (size int, newest int64, err error) {
	// NoTimestamp is less than every timestamp, so it leaves bounds as they are.
	newest = row.NoTimestamp
	if len(m.Key.Bytes) > rowkey.PartitionBytesMax {
		return 0, newest, failure.ErrInvalid
	}
	var e row.Entry
	entries := m.Entries()
	for entries.Next(&e) {
		size += rowkey.FixedSize + len(m.Key.Bytes) + rowkey.SuffixSize(&e) + len(e.Value) + 16
		// Bounds concern rows only: a header is read before deletions are compared.
		if e.Kind == row.KindRow {
			newest = max(newest, bounds.Newest(e.Value))
		}
	}
	return size, newest, entries.Err()
}

// add copies the operations of m, which was checked, into the group's batch. The queue, or inline, is locked.
func (c *committer) add(g *group, m *row.Mutation) {
	flags := &c.headers
	// Consecutive mutations usually belong to the same table, so the last one is compared first.
	if n := len(g.tables); n == 0 || g.tables[n-1] != m.Table && !slices.Contains(g.tables, m.Table) {
		g.tables = append(g.tables, m.Table)
	}
	// One latch covers all partitions of a stripe; the set of a commit is one word.
	stripe := latch.StripeOf(m.Key.Token)
	g.stripes |= stripe
	g.tokens = append(g.tokens, m.Key.Token)
	var entry row.Entry
	partition := rowkey.FixedSize + len(m.Key.Bytes)
	for entries := m.Entries(); entries.Next(&entry); {
		// The flag is raised before the header is visible, because a reader that sees no flag skips headers.
		if entry.Kind == row.KindHeader && flags.Raise(m.Table) {
			g.headers = append(g.headers, m.Table)
			g.set(headerFlagKey(m.Table), nil)
		}
		op := g.batch.MergeDeferred(partition+rowkey.SuffixSize(&entry), len(entry.Value))
		key := rowkey.AppendPartition(op.Key[:0], m.Table, m.Key)
		key = rowkey.AppendSuffix(key, entry.Kind, entry.Start, entry.End)
		// The batch has reserved exactly the key's size: a shorter key would end with bytes of an earlier batch.
		invariant.Check(len(key) == len(op.Key), "storage: a key has another size than was reserved for it")
		copy(op.Value, entry.Value)
		g.noteDeletion(key[:partition], &entry)
		// Finish only fails on an indexed batch.
		_ = op.Finish()
	}
}

// noteDeletion records the keys of rows that an entry deletes, if it deletes several.
func (g *group) noteDeletion(partition []byte, x *row.Entry) {
	// Beyond the purger's bound, deletions are not recorded; reads find them again.
	if len(g.deleted) >= deadPartitionsMax || x.Kind == row.KindRow {
		return
	}
	// The keys are copied, because Pebble takes over the memory of the batch.
	start := append(bytes.Clone(partition), byte(row.KindRow))
	end := append(bytes.Clone(partition), rowkey.KindEnd)
	switch x.Kind {
	case row.KindHeader:
		// A header without a deletion only sets static columns.
		if sum, err := row.Summarize(x.Value, 0); err != nil || !sum.Deletes {
			return
		}
	case row.KindRangeTombstone:
		// An empty end means the end of the partition.
		if start = append(start, x.Start...); len(x.End) > 0 {
			end = append(append(bytes.Clone(partition), byte(row.KindRow)), x.End...)
		}
	}
	if bytes.Compare(start, end) >= 0 {
		return // the range tombstone is empty, and deletes nothing
	}
	g.deleted = append(g.deleted, backlog.Span{Start: start, End: end})
}

func (g *group) set(key, value []byte) {
	// Set only fails on an indexed batch.
	_ = g.batch.Set(key, value, nil)
}
