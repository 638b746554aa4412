package logarchive

import (
	"cmp"
	"errors"
	"fmt"
)

// ErrOff is the error of reading the log of an engine without archiving.
var ErrOff = errors.New("logarchive: the log of this node is not archived")

// Position is a place between two records of a node's log. The zero Position is before every other.
type Position struct {
	// Since is the hybrid time, in microseconds, at which archiving began in the data directory. It changes when a
	// process without archiving has opened the directory.
	Since int64 `json:"since"`
	// Log is the number of a log file, and Offset the number of its bytes before the position.
	Log    uint64 `json:"log"`
	Offset uint64 `json:"offset"`
}

// IsZero reports whether p is the zero Position.
func (p Position) IsZero() bool { return p == Position{} }

// Compare returns a negative number if p is before o, 0 if they are equal, and a positive number if p is after o.
func (p Position) Compare(o Position) int {
	return cmp.Or(cmp.Compare(p.Since, o.Since), cmp.Compare(p.Log, o.Log), cmp.Compare(p.Offset, o.Offset))
}

// String returns a form of fixed length that sorts as Compare.
func (p Position) String() string {
	return fmt.Sprintf("%016x-%016x-%016x", uint64(p.Since), p.Log, p.Offset)
}

// Gap is the error for a position from which the log cannot be read, because a part after it was deleted, or because
// archiving was off for a while. To use the log from Oldest on, a restore needs a checkpoint that is newer than
// Oldest.
type Gap struct {
	After  Position
	Oldest Position // the first position that can be read
}

// Error implements error.
func (g *Gap) Error() string {
	return fmt.Sprintf("logarchive: the log after %s is missing; it continues at %s", g.After, g.Oldest)
}

// NotArchived is the error for a time up to which the segments are not complete.
type NotArchived struct {
	At, Until int64 // microseconds; Until is 0 if no segment is complete
}

// Error implements error.
func (n *NotArchived) Error() string {
	return fmt.Sprintf("logarchive: the log is archived up to %d µs, which is before %d µs", n.Until, n.At)
}
