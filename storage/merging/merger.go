// Package merging merges the changes of one key: it is the engine's Pebble merger.
//
//	write ─▶ operand ─┐
//	write ─▶ operand ─┼─ read or compaction: row.Reconcile ─▶ one row
//	write ─▶ operand ─┘
//
// Writes therefore read nothing, and the engine collapses rows with many operands (CrowdedMin).
package merging

import (
	"bytes"
	"io"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/invariant"
	"cqld/row"
)

const (
	// CrowdedMin is the number of merge operands from which a row is crowded: at 0.4 µs each, a read spends some 10 µs
	// on merging them, as much as it costs to collapse them once.
	CrowdedMin = 32
	// ArenaBytes is the number of bytes of operands that a merge gathers before it merges them.
	ArenaBytes = 64 << 10
	// largeBytes is the size from which an operand is merged immediately: copying it would cost more than checking
	// whether it changes anything.
	largeBytes = 4 << 10
)

// mergerName is stored in the OPTIONS file. Pebble refuses to open a database with another merger.
const mergerName = "cqld.row.1"

// New returns a Pebble merger that uses row.Reconcile. It calls crowded with keys that had at least CrowdedMin
// operands. corrupt returns the error for a key whose value is not a row.
//
// It must stay a plain ValueMerger: with DeletableValueMerger, Pebble v2.1.7 panics in compactions, or older operands
// reappear (cockroachdb/pebble#6168). Therefore the purger removes data instead.
func New(crowded func(key []byte), corrupt func(key []byte, err error) error) *pebble.Merger {
	pool := new(sync.Pool)
	pool.New = func() any { return &merge{pool: pool, crowded: crowded, corrupt: corrupt} }
	return &pebble.Merger{
		Name: mergerName,
		Merge: func(key, value []byte) (pebble.ValueMerger, error) {
			m := pool.Get().(*merge)
			// Pebble may overwrite the key and the value after the call.
			m.key = append(m.key[:0], key...)
			m.arena, m.ends, m.operands, m.large = m.arena[:0], m.ends[:0], 0, false
			invariant.Check(!m.open, "merging: the pool has a merge that is in use")
			m.open = true
			return m, m.add(value)
		},
	}
}

// merge is one merge of operands. It gathers them and merges them at the end: a single one, the usual case, is only
// copied. Their order does not matter to Reconcile.
type merge struct {
	pool    *sync.Pool
	crowded func(key []byte)
	corrupt func(key []byte, err error) error

	key      []byte
	arena    []byte // the operands, concatenated
	ends     []int  // the end of each in arena
	operands int
	open     bool // Pebble has it; Close gives it back to the pool
	out      []byte

	spare  []byte // of reduce
	large  bool   // arena begins with a row that is compared before another one is added
	stream row.Streamer
}

// MergeNewer implements pebble.ValueMerger.
func (m *merge) MergeNewer(value []byte) error { return m.add(value) }

// MergeOlder implements pebble.ValueMerger.
func (m *merge) MergeOlder(value []byte) error { return m.add(value) }

// add copies value, because Pebble may overwrite it.
func (m *merge) add(value []byte) error {
	m.operands++
	if m.large {
		if covered, err := m.stream.Covers(m.arena[:m.ends[0]], value); covered || err != nil {
			return m.fail(err)
		}
	}
	m.arena = append(m.arena, value...)
	m.ends = append(m.ends, len(m.arena))
	// Decoding the gathered rows for the comparison must not cost much more than the new value.
	large := len(value) >= largeBytes && len(m.arena) <= 4*len(value)
	if !large && (len(m.arena) < ArenaBytes || len(m.ends) < CrowdedMin) {
		return nil
	}
	return m.gather()
}

// gather merges the gathered operands into one row. It bounds the memory of a merge to the size of the row and some
// operands.
func (m *merge) gather() error {
	if len(m.ends) > 1 {
		if err := m.reduce(); err != nil {
			return err
		}
		// The merge becomes the first operand; later ones are appended to it.
		m.arena, m.out = m.out, m.arena
		m.ends = append(m.ends[:0], len(m.arena))
	}
	m.large = true
	return nil
}

// fail returns the error for a value that cannot be decoded, or nil if there is no error.
func (m *merge) fail(err error) error {
	if err == nil {
		return nil
	}
	return m.corrupt(m.key, err)
}

// reduce sets out to the merge of the gathered operands.
func (m *merge) reduce() (err error) {
	invariant.Check(len(m.ends) > 1, "merging: a single operand needs no merge")
	sum := m.arena[:m.ends[0]]
	for i, end := range m.ends[1:] {
		// sum points into the previous output, so the next one needs other memory.
		m.out, m.spare = m.spare, m.out
		if m.out, err = m.stream.Reconcile(m.out[:0], sum, m.arena[m.ends[i]:end]); err != nil {
			return m.fail(err)
		}
		sum = m.out
	}
	return nil
}

// Finish implements pebble.ValueMerger. The result is valid until the merge is closed.
func (m *merge) Finish(bool) ([]byte, io.Closer, error) {
	invariant.Check(m.open && len(m.ends) > 0, "merging: a merge of no operands, or one that was closed")
	invariant.Check(m.ends[len(m.ends)-1] == len(m.arena), "merging: the last operand does not end with the arena")
	// Until the row is collapsed, each read merges all operands again.
	if m.operands >= CrowdedMin {
		m.crowded(m.key)
	}
	if len(m.ends) == 1 {
		return m.arena, m, nil
	}
	if err := m.reduce(); err != nil {
		return nil, nil, err
	}
	if invariant.Enabled {
		m.verify()
	}
	return m.out, m, nil
}

// verify checks that the result absorbs each operand: merging one again changes nothing. Retries of writes, repair and
// hints rely on it.
func (m *merge) verify() {
	var stream row.Streamer
	from := 0
	for _, end := range m.ends {
		// Reconciliation is idempotent: an operand that the result contains adds nothing.
		again, err := stream.Reconcile(nil, m.out, m.arena[from:end])
		invariant.Check(err == nil && bytes.Equal(again, m.out),
			"merging: an operand changes the merge that contains it")
		from = end
	}
}

// Close keeps the merge's memory for reuse, unless it has grown large.
func (m *merge) Close() error {
	// Two merges with the same memory would mix the operands of two keys.
	invariant.Check(m.open, "merging: a merge was closed twice")
	m.open = false
	m.stream.Release()
	if cap(m.arena)+cap(m.out)+cap(m.spare) <= 12*ArenaBytes {
		m.pool.Put(m)
	}
	return nil
}
