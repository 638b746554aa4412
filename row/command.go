package row

import (
	"bytes"
	"slices"
	"sort"
	"strconv"
	"sync/atomic"

	"cqld/internal/env"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/schema"
)

// Slice selects the rows with a clustering in [Start, End). A nil End is the end of the partition. Start is inclusive,
// and a nil or empty Start is the beginning of the partition.
type Slice struct{ Start, End []byte }

// AllRows returns the slice of the whole partition.
func AllRows() Slice { return Slice{} }

// SliceOf returns the slice of all rows whose clustering begins with the prefix p.
func SliceOf(p []byte) Slice { return Slice{Start: p, End: After(p)} }

// ExactRow returns the slice of the single row with the complete clustering c: no clustering lies between c and c·00.
// Storage finds the row without a scan. It copies c.
func ExactRow(c []byte) Slice {
	end := make([]byte, len(c)+1)
	copy(end, c)
	// Start and End share memory. Limit the capacity of Start, so that an append to it does not change End.
	return Slice{Start: end[:len(c):len(c)], End: end}
}

// Exact reports whether s is an ExactRow.
func (s Slice) Exact() bool {
	n := len(s.Start)
	return len(s.End) == n+1 && s.End[n] == 0 && bytes.Equal(s.End[:n], s.Start)
}

// After returns the bound that follows every clustering that begins with p. No component begins with 0xFF (see doc.go).
func After(p []byte) []byte { return append(bytes.Clone(p), 0xFF) }

// SlicesAfter returns the parts of slices that follow the row with the clustering c, which has all components, in
// reading order. The result does not refer to c.
func SlicesAfter(in []Slice, c []byte, reversed bool) (out []Slice) {
	bound := append(append(make([]byte, 0, len(c)+1), c...), 0) // no clustering lies between c and c·00
	for _, s := range in {
		// In a reversed read, the remaining rows are before c, so cut the end.
		if reversed {
			// c itself is excluded, because an end is exclusive.
			if s.End == nil || bytes.Compare(s.End, c) > 0 {
				s.End = bound[:len(c):len(c)]
			}
		} else if bytes.Compare(s.Start, bound) < 0 {
			s.Start = bound
		}
		// Omit slices that were read completely.
		if !s.Empty() {
			out = append(out, s)
		}
	}
	return out
}

// Contains reports whether the clustering c lies in s.
func (s Slice) Contains(c []byte) bool {
	return bytes.Compare(s.Start, c) <= 0 && (s.End == nil || bytes.Compare(c, s.End) < 0)
}

// slicesFew is the number of slices up to which InSlices compares with each.
const slicesFew = 8

// InSlices reports whether one of slices, which are ascending and disjoint, contains the clustering c. It is called for
// each row that a search or a view examines, and an IN may have 65,535 values.
func InSlices(slices []Slice, c []byte) bool {
	if len(slices) <= slicesFew {
		for i := range slices {
			if slices[i].Contains(c) {
				return true
			}
		}
		return false
	}
	// Slices that end at or before c precede the only one that may contain it.
	i := sort.Search(len(slices), func(i int) bool {
		return slices[i].End == nil || bytes.Compare(slices[i].End, c) > 0
	})
	return i < len(slices) && slices[i].Contains(c)
}

// Empty reports whether no clustering can lie in s.
func (s Slice) Empty() bool { return s.End != nil && bytes.Compare(s.Start, s.End) >= 0 }

// Overlaps reports whether a clustering can lie in both s and o. Half-open intervals overlap if each begins before the
// other one ends.
func (s Slice) Overlaps(o Slice) bool {
	// The first two test that each begins before the other ends; an empty slice overlaps nothing.
	return !Slice{Start: o.Start, End: s.End}.Empty() && !Slice{Start: s.Start, End: o.End}.Empty() && !s.Empty() &&
		!o.Empty()
}

// Limits bound a read. Rows counts live rows; zero means no limit. A partition that has no live row but a live static
// row counts as one row if the command sets StaticCounts.
type Limits struct {
	Rows uint32
	// PerPartition is PER PARTITION LIMIT of a SELECT.
	PerPartition uint32
	// Bytes bounds the size of the page. A page ends before the row that would exceed it. If that is its first row, the
	// command fails with PageTooSmall.
	Bytes uint32
}

// PageTooSmall is the error of a read whose first row does not fit into a page of Limits.Bytes.
type PageTooSmall struct {
	Bytes int // the size of a page with the row
}

// Error contains the size.
func (e *PageTooSmall) Error() string {
	return "the next row needs a page of " + strconv.Itoa(e.Bytes) + " bytes"
}

// KeyRange contains the partitions with a token in Tokens, which does not wrap, that follow the key After in ring
// order, unless After is nil.
type KeyRange struct {
	Tokens ring.Range
	After  *PartitionKey
}

// ReadCommand requests rows of one partition (Key.Bytes is not nil) or of a range of partitions from a replica. The
// result is a page (page.go).
type ReadCommand struct {
	// Table is the id of the table in storage. Unlike a name, it is not reused after a drop.
	Table schema.StorageID
	// Key is the partition of a single-partition read, which ignores Range.
	Key      PartitionKey
	Range    KeyRange
	Slices   []Slice // ascending and disjoint; apply to every partition
	Reversed bool    // returns the rows of a partition from the last to the first
	// StaticCounts makes a partition without live rows, but with a live static row, count as a row. It is set if the
	// query restricts no clustering column.
	StaticCounts bool
	// Inserted omits the cells of regular columns, so that only rows with a marker from INSERT are live. Liveness and
	// deletions merge independently of the cells, so pages of several replicas can still be merged. A replica that
	// does not know this field returns the cells.
	Inserted bool
	// Limits apply to the page, not to the whole query.
	Limits Limits
	// The coordinator sets Now, so that all replicas agree on expired cells.
	Now int64 // seconds; determines what has expired
	// Filter omits rows from the page; nil omits none. Rows that it omits do not count against Limits. After a bounded
	// number of them the page ends with a position (PageReader.End).
	Filter *Filter
	// Repair is set for the reads of a repair, which the tombstone threshold does not abort, and which may read
	// ranges under repair. It does not change the contents of a page.
	Repair *Repair
	// Cancel ends the read early. nil means that it cannot be canceled. It is local to this node and not encoded.
	Cancel *env.Cancel
	// Memory bounds the page. Nil means that only storage bounds it. It is local to this node and not encoded.
	Memory PageMemory
	// Work bounds the concurrent computations of several reads; nil means no bound. Owner is the client of the read,
	// as Work identifies it. Both are local to this node and not encoded.
	Work  Work
	Owner any
}

// Process calls Work before n bytes are processed. It may wait.
func (c *ReadCommand) Process(n int) {
	// Internal reads have no bound.
	if c.Work != nil {
		c.Work.Work(n)
	}
}

// Work accounts for the bytes that a computation processes.
type Work interface {
	// Work is called before n bytes are processed. It may wait.
	Work(n int)
}

// PageMemory bounds the memory of a page while it is read. Its methods are called by the goroutine that reads.
type PageMemory interface {
	// Grow reports whether the page may take n bytes in total. If not, the page ends after its current row.
	Grow(n int) bool
}

// Repair counts the rows that the reads of a repair write to replicas.
type Repair struct{ Rows atomic.Int64 }

// Count counts mutations that are sent to a replica. Reads that are not part of a repair have a nil Repair.
func (r *Repair) Count(ms []*Mutation) {
	if r == nil {
		return
	}
	var e Entry
	for _, m := range ms {
		// This node has built the mutations, so they are well-formed.
		for entries := m.Entries(); entries.Next(&e); {
			r.Rows.Add(1)
		}
	}
}

// SinglePartition reports whether the command reads one partition.
func (c *ReadCommand) SinglePartition() bool { return c.Key.Bytes != nil }

// ReadsPartition reports whether the command reads the partition of key. The After of a range is compared in ring
// order.
func (c *ReadCommand) ReadsPartition(key PartitionKey) bool {
	if c.SinglePartition() {
		return bytes.Equal(c.Key.Bytes, key.Bytes)
	}
	return c.Range.Tokens.Contains(key.Token) && (c.Range.After == nil || key.Compare(*c.Range.After) > 0)
}

// ReadsSlice reports whether the command reads rows of s in the partitions that it reads.
func (c *ReadCommand) ReadsSlice(s Slice) bool { return slices.ContainsFunc(c.Slices, s.Overlaps) }

// Clone returns a copy of c that shares no memory with it but Repair.
func (c *ReadCommand) Clone() *ReadCommand {
	own := *c
	own.Key.Bytes = bytes.Clone(c.Key.Bytes)
	if c.Range.After != nil {
		own.Range.After = &PartitionKey{Token: c.Range.After.Token, Bytes: bytes.Clone(c.Range.After.Bytes)}
	}
	// All bounds are copied into one allocation of the exact size, which append never moves.
	size := 0
	for i := range c.Slices {
		size += len(c.Slices[i].Start) + len(c.Slices[i].End)
	}
	memory := make([]byte, 0, size)
	part := func(b []byte) []byte {
		// A nil End is the end of the partition, and must stay nil.
		if b == nil {
			return nil
		}
		from := len(memory)
		memory = append(memory, b...)
		return memory[from:len(memory):len(memory)]
	}
	own.Filter = c.Filter.Clone()
	own.Slices = slices.Clone(c.Slices)
	for i := range own.Slices {
		own.Slices[i].Start, own.Slices[i].End = part(own.Slices[i].Start), part(own.Slices[i].End)
	}
	return &own
}

// AppendReadCommand appends the encoding of c for another node.
func AppendReadCommand(dst []byte, c *ReadCommand) []byte {
	// Bit 7 is free. An older node ignores flags that it does not know, so a new flag must not change the layout for
	// it.
	var flags byte
	if c.SinglePartition() {
		flags |= 1
	}
	if c.Reversed {
		flags |= 2
	}
	if c.StaticCounts {
		flags |= 4
	}
	if c.Range.After != nil {
		flags |= 8
	}
	if c.Repair != nil {
		flags |= 16
	}
	if c.Filter != nil {
		flags |= 32
	}
	if c.Inserted {
		flags |= 64
	}
	dst = append(dst, flags)
	dst = wire.AppendUvarint(dst, uint64(c.Table))
	// Encode both tokens with 8 bytes, because they are spread over the whole range.
	if c.SinglePartition() {
		dst = appendKey(dst, c.Key)
	} else {
		dst = wire.AppendInt64(dst, int64(c.Range.Tokens.Start))
		dst = wire.AppendInt64(dst, int64(c.Range.Tokens.End))
		if c.Range.After != nil {
			dst = appendKey(dst, *c.Range.After)
		}
	}
	dst = wire.AppendUvarint(dst, uint64(c.Limits.Rows))
	dst = wire.AppendUvarint(dst, uint64(c.Limits.PerPartition))
	dst = wire.AppendUvarint(dst, uint64(c.Limits.Bytes))
	dst = wire.AppendVarint(dst, c.Now)
	if c.Filter != nil {
		dst = appendFilter(dst, c.Filter)
	}
	dst = wire.AppendUvarint(dst, uint64(len(c.Slices)))
	for _, s := range c.Slices {
		dst = append(wire.AppendUvarint(dst, uint64(len(s.Start))), s.Start...)
		if s.End == nil {
			dst = wire.AppendUvarint(dst, 0)
			continue
		}
		// Encode the length plus one: 0 means a nil end, and 1 an empty end.
		dst = append(wire.AppendUvarint(dst, uint64(len(s.End))+1), s.End...)
	}
	return dst
}

// ConsumeReadCommand decodes the next command of c into cmd, which then points into the bytes of c. Errors are in c.
// The command must not be used then.
func ConsumeReadCommand(c *wire.Cursor, cmd *ReadCommand) {
	flags := c.Uint8()
	// Cancel, Memory, Work and Owner are left nil: they belong to the node that executes the command.
	*cmd = ReadCommand{Slices: cmd.Slices[:0], Reversed: flags&2 != 0, StaticCounts: flags&4 != 0,
		Inserted: flags&64 != 0}
	if flags&16 != 0 {
		// The count is local; the replica only needs to know that the read belongs to a repair.
		cmd.Repair = new(Repair)
	}
	cmd.Table = schema.StorageID(c.Uvarint())
	if flags&1 != 0 {
		// An empty key must not become nil, which means a range read.
		if cmd.Key = consumeKey(c); cmd.Key.Bytes == nil {
			cmd.Key.Bytes = []byte{}
		}
	} else {
		// The two calls are evaluated in the order of the bytes.
		cmd.Range.Tokens = ring.Range{Start: ring.Token(c.Int64()), End: ring.Token(c.Int64())}
		if flags&8 != 0 {
			k := consumeKey(c)
			cmd.Range.After = &k
		}
	}
	cmd.Limits = Limits{Rows: uint32(c.Uvarint()), PerPartition: uint32(c.Uvarint()), Bytes: uint32(c.Uvarint())}
	cmd.Now = c.Varint()
	if flags&32 != 0 {
		cmd.Filter = consumeFilter(c)
	}
	// A slice takes at least two bytes, so a count of more slices than bytes can hold fails without an allocation.
	for n := c.Count(2); n > 0; n-- {
		s := Slice{Start: consumeShort(c)}
		switch size := c.Uvarint(); {
		// Checked before the conversion to int, which a size of 64 bits may overflow.
		case size > uint64(c.Len())+1:
			c.Fail(wire.ErrShort)
		case size == 1:
			s.End = emptyValue // not nil, which would mean an open end
		case size > 1:
			s.End = c.Take(int(size - 1))
		}
		cmd.Slices = append(cmd.Slices, s)
	}
}
