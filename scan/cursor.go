package scan

import (
	"bytes"
	"errors"
	"slices"

	"cqld/ring"
	"cqld/row"
)

// Position is a position in the order of a scan. The zero value is the beginning.
type Position struct {
	Key row.PartitionKey // Bytes is nil at the beginning
	// Inside means that the partition was read up to and including Clustering.
	Inside     bool
	Clustering []byte
	Done       bool   // no further row of the partition is needed
	Live       bool   // Consumed was called for a row of the partition
	Given      uint32 // rows of the partition, or groups of rows, that count for Cursor.PerPartition
}

// errPage is the error of a page without an end that is empty and not the last.
var errPage = errors.New("scan: a page is empty and not the last")

// Cursor is the state of a scan. It is not safe for concurrent use.
type Cursor struct {
	// Command contains the fields that all commands share: everything except Key and Range. Its limits apply to each
	// command, and may change between commands. Its limit of rows in a partition, if any, must equal PerPartition,
	// unless EndPartition is called for each partition.
	Command row.ReadCommand
	// Keys are the partitions to read, in this order. Nil means all partitions with a token in Tokens, which does not
	// wrap.
	Keys   []row.PartitionKey
	Tokens ring.Range
	// PerPartition ends a partition when At.Given, which the user of the Cursor counts, has reached it; zero means no
	// limit.
	PerPartition uint32

	// At is the position of the scan. It moves at the end of each page, and with Consumed.
	At Position
	// Reader is the reader of the current page. NextPartition sets its Key, Header and RangeTombstones.
	Reader row.PageReader

	state
	memory []byte              // of At.Key
	one    [1]row.PartitionKey // of Keys, after One
}

// state is the part of a Cursor that only its methods use.
type state struct {
	key    int  // index of the next partition in Keys
	ended  bool // no partition of Tokens is left
	ready  bool // the next command is determined by single, resumed and rest
	single bool // the command reads one partition
	// resumed means that the command reads the rows of a partition after At; rest contains the remaining slices.
	resumed bool
	rest    []row.Slice

	open       bool   // the current partition may have more rows in the page
	continues  bool   // the page ended inside the current partition
	partitions int    // in the page
	rows       int    // of the current partition in the page
	last       []byte // clustering of the last of them
}

// Reset prepares c for another scan. It keeps memory, but no references.
func (c *Cursor) Reset() {
	c.Command = row.ReadCommand{}
	c.Keys, c.one[0] = nil, row.PartitionKey{}
	c.Tokens, c.PerPartition = ring.Range{}, 0
	c.At = Position{Clustering: c.At.Clustering[:0]}
	c.Reader.Reset(nil)
	c.Reader.Runs = false
	c.Reader.Key = row.PartitionKey{}
	c.state = state{}
}

// One sets Keys to one partition.
func (c *Cursor) One(key row.PartitionKey) {
	c.one[0] = key
	c.Keys = c.one[:]
}

// Seek moves to a position of an earlier scan of the same rows. It returns false if the position is in none of Keys. c
// takes over the memory of at.Clustering, and overwrites it.
func (c *Cursor) Seek(at Position) bool {
	c.At = at
	if c.Keys == nil || at.Key.Bytes == nil {
		return true
	}
	i := slices.IndexFunc(c.Keys, func(k row.PartitionKey) bool { return bytes.Equal(k.Bytes, at.Key.Bytes) })
	if i < 0 {
		return false
	}
	// If the rest of the partition is not needed, it is skipped; otherwise enter finds its remaining slices.
	if c.key = i; at.Done {
		c.key++
	}
	return true
}

// More reports whether another command is needed.
func (c *Cursor) More() bool {
	for !c.ready {
		key, ok := c.partition()
		if !ok {
			c.single, c.resumed = false, false
			c.ready = c.Keys == nil && !c.ended
			return c.ready
		}
		// A partition without remaining slices, or with enough rows, needs no command.
		if c.ready = c.enter(key); !c.ready {
			c.leave(key)
		}
	}
	return true
}

// partition returns the partition that must be read by a command of its own.
func (c *Cursor) partition() (key row.PartitionKey, ok bool) {
	switch {
	case c.Keys != nil && c.key < len(c.Keys):
		return c.Keys[c.key], true
	case c.Keys == nil && !c.ended && c.At.Key.Bytes != nil && !c.At.Done:
		return c.At.Key, true
	}
	return row.PartitionKey{}, false
}

// enter prepares the command that reads the rest of a partition. It returns false if none is needed.
func (c *Cursor) enter(key row.PartitionKey) bool {
	c.single, c.rest = true, c.Command.Slices
	c.resumed = c.At.Inside && bytes.Equal(c.At.Key.Bytes, key.Bytes)
	if !c.resumed {
		return true
	}
	if c.PerPartition > 0 && c.At.Given >= c.PerPartition {
		return false
	}
	// The row at At.Clustering was read: the rest begins after it.
	c.rest = row.SlicesAfter(c.Command.Slices, c.At.Clustering, c.Command.Reversed)
	return len(c.rest) > 0
}

// leave moves the position past a partition.
func (c *Cursor) leave(key row.PartitionKey) {
	if c.Keys != nil {
		c.key++
	}
	c.move(key)
	c.At.Inside, c.At.Done = true, true
}

// move moves the position to the beginning of a partition.
func (c *Cursor) move(key row.PartitionKey) {
	if c.memory == nil {
		c.memory = []byte{} // an empty key is not nil
	}
	c.memory = append(c.memory[:0], key.Bytes...)
	c.At = Position{Key: row.PartitionKey{Token: key.Token, Bytes: c.memory}, Clustering: c.At.Clustering[:0]}
}

// Next sets cmd to the next command and returns true, or returns false at the end of the scan. cmd shares no memory
// with c that changes, so it may be used after the scan. Calls without a call of Page between them return the same
// command.
func (c *Cursor) Next(cmd *row.ReadCommand) bool {
	if !c.More() {
		return false
	}
	*cmd = c.Command
	if !c.single {
		cmd.Key, cmd.Range = row.PartitionKey{}, row.KeyRange{Tokens: c.Tokens}
		// The copy keeps the command valid when move overwrites the memory of At.Key.
		if c.At.Key.Bytes != nil {
			cmd.Range.After = &row.PartitionKey{Token: c.At.Key.Token, Bytes: bytes.Clone(c.At.Key.Bytes)}
		}
		return true
	}
	cmd.Key, _ = c.partition()
	if c.Keys == nil {
		cmd.Key.Bytes = bytes.Clone(cmd.Key.Bytes)
	}
	// The static row represents the partition only if none of its rows was live so far, and the limit counts rows of
	// earlier pages, too.
	if cmd.Slices = c.rest; c.resumed {
		cmd.StaticCounts = cmd.StaticCounts && !c.At.Live
		if cmd.Limits.PerPartition > 0 {
			cmd.Limits.PerPartition -= c.At.Given
		}
	}
	return true
}

// Page starts the iteration over the page that answers the command of Next. c refers to page until EndPage.
func (c *Cursor) Page(page []byte) {
	c.Reader.Reset(page)
	c.ready, c.open, c.partitions, c.rows = false, false, 0, 0
}

// NextPartition moves to the next partition of the page.
func (c *Cursor) NextPartition() bool {
	c.close()
	if !c.Reader.NextPartition() {
		return false
	}
	c.partitions++
	// A resumed partition keeps its position: Given and Live continue.
	if !c.resumed || !bytes.Equal(c.At.Key.Bytes, c.Reader.Key.Bytes) {
		c.move(c.Reader.Key)
	}
	c.open, c.continues, c.rows = true, false, 0
	return true
}

// NextRow decodes the next row of the partition into x, which then points into the page.
func (c *Cursor) NextRow(x *row.Row) bool {
	if !c.open {
		return false
	}
	if c.Reader.NextRow(x) {
		c.rows++
		c.last = x.Clustering
		return true
	}
	c.open = false
	if c.continues = c.Reader.Continues(); c.continues && c.rows > 0 {
		// Rows that were not consumed count as read: a page of deleted rows is progress.
		c.At.Inside, c.At.Clustering = true, append(c.At.Clustering[:0], c.last...)
		if c.Command.StaticCounts && !c.At.Live {
			// If no row can follow, the static row represents the partition, and this is its last page.
			c.continues = len(row.SlicesAfter(c.Command.Slices, c.last, c.Command.Reversed)) > 0
		}
	}
	return false
}

// Continues reports, after the rows of a partition, whether the page ended inside it: the partition may have further
// rows.
func (c *Cursor) Continues() bool { return c.continues }

// close skips the rest of the partition.
func (c *Cursor) close() {
	if c.open && !c.At.Done {
		var skipped row.Row
		for c.NextRow(&skipped) {
		}
	}
	c.open = false
}

// Consumed moves the position past the row that NextRow returned last, and records that the partition has a live row.
// A scan that ends there continues with the row after it.
func (c *Cursor) Consumed() {
	c.At.Inside, c.At.Live = true, true
	c.At.Clustering = append(c.At.Clustering[:0], c.last...)
}

// ConsumedStatic records that the live static row represents the partition, which has no other live row, and moves the
// position past the partition.
func (c *Cursor) ConsumedStatic() { c.At.Inside, c.At.Live, c.At.Done = true, true, true }

// EndPartition skips the rest of the current partition, including later pages.
func (c *Cursor) EndPartition() { c.At.Done = true }

// EndPage moves the position to the end of the page, and skips unread rows. It returns an error if the page is
// malformed; the position is then undefined.
func (c *Cursor) EndPage() error {
	for c.NextPartition() {
	}
	if err := c.Reader.Err(); err != nil {
		return err
	}
	// An explicit end takes precedence, because it may be after the last row of the page.
	more := c.Reader.More()
	switch end := c.Reader.End(); {
	case end != nil:
		c.passed(end)
	case more && c.partitions == 0:
		return errPage
	case more && c.rows == 0:
		c.At.Done = true // its static row counted, for which the replica read the whole partition
	}
	switch {
	// A range is read until a page is the last.
	case !c.single:
		c.ended = !more
	case !more || c.At.Done:
		key := c.At.Key
		if c.Keys != nil {
			key = c.Keys[c.key] // the page may have contained no partition
		}
		c.leave(key)
	}
	return nil
}

// Skip moves the position past a page whose rows are not needed. If the page is malformed, it returns an error and
// does not change the position, so that Next returns the same command again.
func (c *Cursor) Skip(page []byte) error {
	before := c.At
	before.Key.Bytes, before.Clustering = bytes.Clone(c.At.Key.Bytes), bytes.Clone(c.At.Clustering)
	c.Page(page)
	err := c.EndPage()
	if err != nil {
		c.At = before
	}
	return err
}

// passed moves the position to the explicit end of a page, which may be after its last row.
func (c *Cursor) passed(end *row.Position) {
	if c.At.Key.Bytes == nil || !bytes.Equal(c.At.Key.Bytes, end.Key.Bytes) {
		c.move(end.Key)
	}
	c.At.Inside, c.At.Done = true, c.At.Done || end.Whole
	c.At.Clustering = append(c.At.Clustering[:0], end.Clustering...)
}

// Further reports whether the scan has partitions after the current one, or may have some.
func (c *Cursor) Further() bool {
	if c.Keys != nil {
		return c.key < len(c.Keys)-1
	}
	return !c.ended
}
