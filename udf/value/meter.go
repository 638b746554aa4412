package value

import (
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/cockroachdb/apd/v3"
)

// Limits are the bounds of one call of a function. The configuration of the node sets them. Package udf replaces
// zeros by defaults; here, zero means zero.
type Limits struct {
	// Steps bounds the operations of a call, as Step and Work count them. A step takes 20 to 200 ns.
	Steps int64
	// Bytes bounds the memory that the call allocates, including garbage.
	Bytes int64
	// Output is the largest result, in bytes.
	Output int64
	// Warn is the duration of a call after which the client gets a warning.
	Warn time.Duration
	// Time is the longest duration of a call; zero means no limit. It protects against slow machines: steps end a call
	// first, and end it at the same point on every machine.
	Time time.Duration
}

// Exceeded is the error of a call that exceeded a bound. Reason continues a sentence that names the function.
type Exceeded struct{ Reason string }

// Error returns the reason.
func (e *Exceeded) Error() string { return e.Reason }

// Fault is the error of a call that failed, with a message in the style of its language. The client gets it as
// FUNCTION_FAILURE. Msg is written as in the language: "line 3: …" of Lua, "java.lang.…" of Java.
type Fault struct{ Msg string }

// Error returns the message.
func (e *Fault) Error() string { return e.Msg }

// Unavailable is the error of a call for which the node had no memory in time. The call may succeed later. Err wraps
// memory.ErrExhausted.
type Unavailable struct{ Err error }

// Error returns the reason.
func (e *Unavailable) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *Unavailable) Unwrap() error { return e.Err }

// Memory is the memory that all calls of a node share. Its methods are safe for concurrent use. Package udf
// implements it with an account for each call.
type Memory interface {
	// Grow reserves n bytes more for the call, and may wait. Its errors are *Exceeded and *Unavailable.
	Grow(n int64) error
	// Shrink returns n bytes.
	Shrink(n int64)
}

// Meter counts what one call uses. Its methods panic with *Exceeded when a bound is reached; the interpreter recovers
// it. It belongs to one call, and is used by one goroutine. The zero Meter has limits of 0, so every operation
// exceeds them.
type Meter struct {
	limits Limits
	// steps counts the operations so far; it never exceeds limits.Steps by more than one charge.
	steps int64
	// bytes counts all allocations. Freed memory is not subtracted, so that the bound does not depend on the garbage
	// collector.
	bytes int64
	// elapsed returns the duration of the call so far. nil means that time is not limited.
	elapsed func() time.Duration
	wall    func() time.Time // nil means the Unix epoch
	// memory is the memory of the node. nil means that only limits bound the call.
	memory Memory
	// reserved is the number of bytes reserved from memory. If memory is set, it is at least bytes.
	reserved int64
	// waited is the time in which Reserve waited for memory. It does not count as time of the call.
	waited time.Duration
}

const (
	// stepsBetweenClocks is the number of steps after which the time is checked.
	stepsBetweenClocks = 1024
	// reservationMin and reservationMax bound what Alloc reserves at once.
	reservationMin = 16 << 10
	reservationMax = 4 << 20
)

// NewMeter returns a meter with nothing counted. elapsed returns the duration of the call so far and may be nil.
// SetMemory and SetWall complete it before the call. One meter serves one call; its figures are read with Used after
// it.
func NewMeter(limits Limits, elapsed func() time.Duration) *Meter {
	return &Meter{limits: limits, elapsed: elapsed}
}

// SetWall sets the clock of the functions that return the time. A function of Java may read the time; Lua has none.
func (m *Meter) SetWall(wall func() time.Time) { m.wall = wall }

// Wall returns the time of day. It differs between calls, so a function that reads it is not deterministic.
func (m *Meter) Wall() time.Time {
	if m.wall == nil {
		return time.Unix(0, 0)
	}
	return m.wall()
}

// SetMemory makes the call reserve what it allocates. It must be called before the first Alloc.
func (m *Meter) SetMemory(memory Memory) { m.memory = memory }

// Reserve reserves n bytes of the node's memory in addition to what Alloc counts. The time for which it waits does not
// count as the call's. Nothing is reserved if n is not positive, or if the meter has no Memory. A caller uses it for
// memory that is not the call's own, such as an instance of a module, and returns it with Release.
func (m *Meter) Reserve(n int64) error {
	if m.memory == nil || n <= 0 {
		return nil
	}
	if m.elapsed == nil {
		return m.memory.Grow(n)
	}
	// The node's shortage must not end a call as too slow.
	began := m.elapsed()
	err := m.memory.Grow(n)
	m.waited += m.elapsed() - began
	return err
}

// Release returns what Reserve has reserved. n must have been reserved.
func (m *Meter) Release(n int64) {
	// Without a bound nothing was reserved.
	if m.memory != nil {
		m.memory.Shrink(n)
	}
}

// Used returns the operations and the bytes of memory that the call has used.
func (m *Meter) Used() (steps, bytes int64) { return m.steps, m.bytes }

// Step counts one operation.
func (m *Meter) Step() { m.Work(1) }

// Work counts n operations. It panics with *Exceeded when the operations or the time are used up. A charge larger than
// the rest ends the call at once, before the work is done.
func (m *Meter) Work(n int64) {
	before := m.steps
	// n is bounded by callers, so the sum does not overflow.
	m.steps += n
	if m.steps > m.limits.Steps {
		panic(&Exceeded{fmt.Sprintf("it executed more than %d operations", m.limits.Steps)})
	}
	// Reading the clock costs more than a step. One clock reading for a charge of any size.
	if before/stepsBetweenClocks != m.steps/stepsBetweenClocks {
		if err := m.Late(); err != nil {
			panic(err)
		}
	}
}

// Late returns *Exceeded if the call has run longer than its time. It is called by interpreters that count in another
// way, such as compiled modules.
func (m *Meter) Late() error {
	// Time in which the call waited for memory is not its own.
	if m.elapsed != nil && m.limits.Time > 0 && m.elapsed()-m.waited > m.limits.Time {
		return &Exceeded{fmt.Sprintf("it ran longer than %dms", m.limits.Time.Milliseconds())}
	}
	return nil
}

// bytesPerStep is the number of bytes that are copied in about the time of one operation. A copy of a megabyte counts
// as 16,384 operations.
const bytesPerStep = 64

// Alloc counts n bytes of memory before they are allocated. It panics with *Exceeded, or with *Unavailable if the node
// has no memory in time. Memory that becomes garbage stays counted, so a loop that allocates ends even if it keeps
// nothing.
func (m *Meter) Alloc(n int64) {
	// Subtracted, because the sum may overflow. A negative n is a product that has overflowed.
	if n < 0 || n > m.limits.Bytes-m.bytes {
		panic(&Exceeded{fmt.Sprintf("it allocated more than %d bytes", m.limits.Bytes)})
	}
	// Allocating takes time too.
	m.Work(1 + n/bytesPerStep)
	m.bytes += n
	// Reservations are larger than allocations, so most allocations reserve nothing.
	if m.bytes > m.reserved && m.memory != nil {
		m.reserve(m.bytes - m.reserved)
	}
}

// reserve reserves at least the missing n bytes for Alloc, and up to a quarter of what the call has allocated, so
// that large calls rarely wait.
func (m *Meter) reserve(n int64) {
	// At least what is needed now.
	more := max(n, reservationMin, min(m.bytes/4, reservationMax))
	err := m.Reserve(more)
	var exceeded *Exceeded
	// The larger reservation does not fit, but n bytes may.
	if more > n && errors.As(err, &exceeded) {
		more = n
		err = m.Reserve(more)
	}
	if err != nil {
		// Catch converts it, as all errors of a meter.
		panic(err)
	}
	m.reserved += more
}

// Scan counts an operation that reads all bytes of the strings and numbers among vs: a comparison, or a search in a
// table. A decimal is compared with another of the same magnitude by computing both with the same exponent. Call it
// before the operation.
func (m *Meter) Scan(vs ...Value) {
	for _, v := range vs {
		switch v := v.(type) {
		case string:
			m.Work(int64(len(v)) / bytesPerStep)
		case *big.Int:
			// BitLen is in bits.
			m.Work(int64(v.BitLen()) / (8 * bytesPerStep))
		case *apd.Decimal:
			m.Convert(v)
		}
	}
}

// Convert counts the conversion of exact numbers among vs to text, to a float or between bases, before it is done.
// Other values are ignored. A number of n words is converted in time n².
func (m *Meter) Convert(vs ...Value) {
	for _, v := range vs {
		switch v := v.(type) {
		case *big.Int:
			// A number of less than a word costs nothing in addition.
			m.convert(int64(v.BitLen()) / 64)
		case *apd.Decimal:
			m.convert(int64(v.Coeff.BitLen()) / 64)
		}
	}
}

// convert counts the conversion of a number of 64-bit words. One of 1,024 words, which has 19,700 digits, takes 0.5 ms.
// Both constants were chosen for package big.
func (m *Meter) convert(words int64) {
	const linear, pairsPerStep = 2, 256
	// Two charges: a linear part for small numbers, and one by the square for large ones.
	m.Work(linear * words)
	m.Work(words * words / pairsPerStep)
}

// Catch converts the panics of this package to an error. It is for defer, and panics again with others. Each
// interpreter defers it in the function that a call enters.
func Catch(err *error) {
	switch e := recover().(type) {
	case nil:
	case *Exceeded:
		*err = e
	case *Fault:
		*err = e
	case *Unavailable:
		*err = e
	// Any other panic is a bug in the interpreter or a run-time error of Go.
	default:
		panic(e)
	}
}

// Failf panics with a Fault.
func Failf(format string, args ...any) {
	panic(&Fault{fmt.Sprintf(format, args...)})
}
