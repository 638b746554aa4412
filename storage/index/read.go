package index

import (
	"fmt"
	"slices"

	"cqld/row"
	"cqld/storage"
	"cqld/storage/failure"
	"cqld/storage/reading"
)

// Partitions implements storage.PartitionLister. The first listing of a table that had rows before it had an index
// builds the index, and may take long. Errors wrap failure.ErrInvalid for a table without an index.
func (x *Partitions) Partitions(q *storage.PartitionsRead) (page storage.PartitionsPage, err error) {
	if x.state(q.Table) != complete {
		if !x.Maintains(q.Table) {
			return page, fmt.Errorf("%w: table %s has no partition index", failure.ErrInvalid, x.host.NameOf(q.Table))
		}
		if err := x.build(q.Table); err != nil {
			return page, err
		}
	}
	l := listing{x: x, q: q}
	if err := l.run(); err != nil {
		return l.page, err
	}
	// The iterators are closed now. Emptied reads again under the write latch, so a partition that was written
	// meanwhile keeps its entry.
	for _, k := range l.removed {
		if err := x.host.Emptied(q.Table, k); err != nil {
			return l.page, err
		}
	}
	return l.page, nil
}

// listing is the state of one step. It is used by one goroutine, and holds iterators only during run.
type listing struct {
	x *Partitions
	q *storage.PartitionsRead
	// page is the result. Its keys are copies; Last is the key at which the next step continues, whether it was live
	// or not.
	page    storage.PartitionsPage
	removed []row.PartitionKey // perhaps nothing is left of them
	bytes   int                // of the keys in the page
}

func (l *listing) run() (err error) {
	// The iterator over entries is opened first, so that the later one over rows shows the rows of every entry.
	entries, err := l.x.host.Entries(l.q.Table, l.q.From, l.q.To)
	if err != nil {
		return err
	}
	defer func() { // also when a panic passes
		if closeErr := entries.Close(); err == nil {
			err = closeErr
		}
	}()
	return l.x.host.Probe(func(p *reading.Prober) error { return l.walk(entries, p) })
}

// walk iterates over the entries of the index.
func (l *listing) walk(entries *storage.Entries, p *reading.Prober) (err error) {
	first, next := entries.First, entries.Next
	if l.q.Reversed {
		first, next = entries.Last, entries.Prev
	}
	valid := first()
	// Many tombstones end a step as many keys do. The client gets a short page, and More.
	for ; valid && err == nil && !l.enough() && !p.Exhausted(); valid = next() {
		err = l.add(entries.Key(), p)
	}
	l.page.More = valid
	return err
}

// enough reports whether the step has reached one of its limits.
func (l *listing) enough() bool {
	return len(l.page.Keys) >= l.q.Limit || l.page.Scanned >= stepKeys || l.bytes >= stepBytes
}

// add adds a key to the page if its partition is live. The key is valid during the call. A partition that is dead here
// may be live on another node, so only the coordinator knows which keys exist.
func (l *listing) add(key []byte, p *reading.Prober) error {
	if l.page.Scanned++; l.page.Scanned%cancelEvery == 0 {
		if err := l.q.Cancel.Err(); err != nil {
			return err
		}
	}
	l.page.Last = append(l.page.Last[:0], key...)
	k := row.NewPartitionKey(key)
	// This node no longer owns the token: the entry is a leftover of a range movement, and is removed once its rows
	// are.
	if l.q.Holds != nil && !l.q.Holds(k.Token) {
		l.suspect(k)
		return nil
	}
	// Dead asks for all keys with an entry, so no partition is read.
	live, nothing, err := l.q.Dead, false, error(nil)
	if !live {
		live, nothing, err = p.Alive(l.q.Table, k, l.q.Now, l.q.Cancel)
	}
	switch {
	case err != nil:
		return err
	case live:
		l.page.Keys = append(l.page.Keys, slices.Clone(key))
		l.bytes += len(key)
	case nothing:
		l.suspect(k)
	}
	return nil
}

// suspect records a partition whose entry may be stale.
func (l *listing) suspect(k row.PartitionKey) {
	// Beyond the bound, a later listing finds the others. The key is copied, because the iterator moves on.
	if len(l.removed) < stepDropped {
		k.Bytes = append([]byte{}, k.Bytes...)
		l.removed = append(l.removed, k)
	}
}
