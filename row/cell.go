package row

import (
	"bytes"
	"math"

	"cqld/schema"
)

// NoTimestamp is the timestamp (µs) of a value that was never written. It is less than any timestamp that a client may
// send, so it loses every comparison.
const NoTimestamp = math.MinInt64

// Cell is one version of the value of a column, or of an element of a multi-cell column. Its Path and Value may point
// into the bytes from which it was decoded; they are not modified.
type Cell struct {
	Column    schema.ColumnID
	Tombstone bool
	TTL       int32 // seconds; 0 if it does not expire
	// Path is the ordered form of the element's key, by which elements sort; nil unless the column is multi-cell.
	Path      []byte
	Timestamp int64 // µs
	// LocalTime is the time in seconds at which the cell expires (TTL > 0) or was deleted (Tombstone); otherwise 0.
	LocalTime int64
	// Value is in wire form; empty for a tombstone and for an element of a set.
	Value []byte
}

// Live reports whether the cell has a value at now (seconds). A cell that expires at now is not live at now.
func (c *Cell) Live(now int64) bool {
	return !c.Tombstone && (c.TTL == 0 || c.LocalTime > now)
}

// compareID orders the cells of a row by column, then by path.
func (c *Cell) compareID(o *Cell) int {
	if c.Column != o.Column {
		return int(c.Column) - int(o.Column)
	}
	return bytes.Compare(c.Path, o.Path)
}

// equal reports whether c and o are the same version of the same cell.
func (c *Cell) equal(o *Cell) bool {
	// A nil and an empty path are equal here, because the column determines whether it has paths.
	return c.Column == o.Column && bytes.Equal(c.Path, o.Path) && c.Timestamp == o.Timestamp && c.TTL == o.TTL &&
		c.LocalTime == o.LocalTime && c.Tombstone == o.Tombstone && bytes.Equal(c.Value, o.Value)
}

// Liveness is the row marker that INSERT writes: it keeps a row alive that has no other cell. An UPDATE writes none, so
// a row that was only updated disappears with its last cell.
type Liveness struct {
	Timestamp int64 // µs; NoTimestamp if there is no marker
	TTL       int32 // seconds; 0 if it does not expire
	// LocalTime is the expiry in seconds. It is not used without a TTL.
	LocalTime int64
}

// NoLiveness returns the marker of a row that was never inserted.
func NoLiveness() Liveness { return Liveness{Timestamp: NoTimestamp} }

// Present reports whether there is a marker.
func (l Liveness) Present() bool { return l.Timestamp != NoTimestamp }

// Live reports whether the marker keeps its row alive at now (seconds).
func (l Liveness) Live(now int64) bool {
	return l.Present() && (l.TTL == 0 || l.LocalTime > now)
}

// Deletion deletes all writes in its scope up to its timestamp. A write with the same timestamp is deleted too.
type Deletion struct {
	Timestamp int64 // µs; NoTimestamp means no timestamp
	// LocalTime is the time of the deletion in seconds, from which gc_grace counts.
	LocalTime int64
}

// NoDeletion returns a Deletion that deletes nothing.
func NoDeletion() Deletion { return Deletion{Timestamp: NoTimestamp} }

// Present reports whether d deletes anything.
func (d Deletion) Present() bool { return d.Timestamp != NoTimestamp }

// Deletes reports whether d deletes a write at timestamp. NoTimestamp is less than every other timestamp, so NoDeletion
// deletes no write.
func (d Deletion) Deletes(timestamp int64) bool { return timestamp <= d.Timestamp }

// Supersedes reports whether d wins over o. Of two deletions with the same timestamp, the one with the later
// LocalTime wins, which is kept longer.
func (d Deletion) Supersedes(o Deletion) bool {
	return d.Timestamp > o.Timestamp || d.Timestamp == o.Timestamp && d.LocalTime > o.LocalTime
}

// Max returns the deletion that supersedes the other.
func (d Deletion) Max(o Deletion) Deletion {
	if o.Supersedes(d) {
		return o
	}
	return d
}

// ComplexDeletion deletes the elements of one multi-cell column. Cassandra calls it a complex deletion. Overwriting a
// collection writes one, at a timestamp before the new elements.
type ComplexDeletion struct {
	Column schema.ColumnID
	Deletion
}
