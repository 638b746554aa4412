package hints

import (
	"fmt"
	"time"

	"cqld/internal/wire"
	"cqld/row"
	"cqld/schema"
)

// entry is one mutation of a record.
type entry struct {
	expiry   int64 // seconds since 1970
	mark     int64 // of Coordinator.HintMark
	created  int64 // ns since 1970: when the mutation was first written; zero in records of an earlier version
	mutation *row.Mutation
}

// entryVersion is the first byte of an entry. Entries of an earlier version begin with their expiry, whose first byte
// is zero, and have no created.
const entryVersion = 1

// appendEntry encodes an entry: version 1, expiry 8, mark 8, created 8, mutation (row.AppendMutation).
func appendEntry(dst []byte, e *entry) []byte {
	dst = wire.AppendInt64(append(dst, entryVersion), e.expiry)
	dst = wire.AppendInt64(wire.AppendInt64(dst, e.mark), e.created)
	return row.AppendMutation(dst, e.mutation)
}

// consumeEntry is the inverse of appendEntry, and also reads entries of the earlier version. The mutation points into
// the record.
func consumeEntry(c *wire.Cursor) (e entry) {
	first := *c // a copy, because the first byte of an earlier version belongs to the expiry
	version := first.Uint8()
	versioned := version == entryVersion
	switch {
	case versioned:
		*c = first
	case version != 0 && first.Err() == nil:
		c.Fail(fmt.Errorf("hints: an entry has version %d, this build reads %d", version, entryVersion))
	}
	e.expiry, e.mark = c.Int64(), c.Int64()
	if versioned {
		e.created = c.Int64()
	}
	e.mutation = new(row.Mutation)
	row.ConsumeMutation(c, e.mutation)
	return e
}

// grace returns gc_grace_seconds of a table.
func grace(table *schema.Table) time.Duration {
	return time.Duration(table.Options.GCGraceSeconds) * time.Second
}

// validUntil returns the expiry of a hint that is made at now, for a mutation of table that was first written at
// created (ns since 1970). The window counts from now, even for a hint that replaces another one. gc_grace_seconds
// counts from the write: after that time, a later deletion of the written data may have been purged.
func (h *Hints) validUntil(table *schema.Table, now time.Time, created int64) time.Time {
	end := now.Add(h.limits.Window)
	if purged := time.Unix(0, created).Add(grace(table)); purged.Before(end) {
		return purged
	}
	return end
}

// expired reports whether an entry is void at now: its validity has ended, or the table's gc_grace_seconds, which may
// have been shorter than now when the hint was made, or have been reduced since.
func (e *entry) expired(table *schema.Table, now time.Time) bool {
	return e.expiry <= now.Unix() ||
		table != nil && e.created != 0 && !now.Before(time.Unix(0, e.created).Add(grace(table)))
}

// madeAt returns when the mutation of an entry was first written (ns since 1970). For an entry of an earlier version
// this is estimated, as the beginning of its validity by the current options of the table.
func (h *Hints) madeAt(e *entry, table *schema.Table, now time.Time) int64 {
	switch {
	case e.created != 0:
		return min(e.created, now.UnixNano())
	case table == nil:
		return now.UnixNano()
	}
	return min(now.UnixNano(), (e.expiry-int64(min(h.limits.Window, grace(table))/time.Second))*int64(time.Second))
}
