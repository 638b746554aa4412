package value

import (
	"fmt"
	"time"
)

// Limits are the bounds of one call of a function.
type Limits struct {
	Steps int64 // operations
	Bytes int64 // of memory, including what is no longer used
	// Output is the largest result, in bytes.
	Output int64
	// Warn is the duration of a call after which the client gets a warning.
	Warn time.Duration
	// Time is the longest duration of a call; zero means no limit. It protects against slow machines: steps end a call first, and
	// end it at the same point on every machine.
	Time time.Duration
}

// Exceeded is the error of a call that exceeded a bound.
type Exceeded struct{ Reason string }

// Error returns the reason.
func (e *Exceeded) Error() string { return e.Reason }

// Fault is the error of a call that failed, in the words of its language.
type Fault struct{ Msg string }

// Error returns the message.
func (e *Fault) Error() string { return e.Msg }

// Meter counts what one call uses. Its methods panic with *Exceeded when a bound is reached; the interpreter recovers it.
type Meter struct {
	limits  Limits
	steps   int64
	bytes   int64
	elapsed func() time.Duration // since the call began; nil means that time is not limited
}

// stepsBetweenClocks is the number of steps after which the time is checked.
const stepsBetweenClocks = 1024

// NewMeter returns a meter with nothing counted. elapsed returns the duration of the call so far and may be nil.
func NewMeter(limits Limits, elapsed func() time.Duration) *Meter {
	return &Meter{limits: limits, elapsed: elapsed}
}

// Step counts one operation.
func (m *Meter) Step() { m.Work(1) }

// Work counts n operations.
func (m *Meter) Work(n int64) {
	before := m.steps
	m.steps += n
	if m.steps > m.limits.Steps {
		panic(&Exceeded{fmt.Sprintf("it executed more than %d operations", m.limits.Steps)})
	}
	if before/stepsBetweenClocks != m.steps/stepsBetweenClocks {
		if err := m.Late(); err != nil {
			panic(err)
		}
	}
}

// Late returns *Exceeded if the call has run longer than its time.
func (m *Meter) Late() error {
	if m.elapsed != nil && m.limits.Time > 0 && m.elapsed() > m.limits.Time {
		return &Exceeded{fmt.Sprintf("it ran longer than %dms", m.limits.Time.Milliseconds())}
	}
	return nil
}

// bytesPerStep is the number of bytes that are copied in about the time of one operation.
const bytesPerStep = 64

// Alloc counts n bytes of memory before they are allocated.
func (m *Meter) Alloc(n int64) {
	if n < 0 || n > m.limits.Bytes-m.bytes {
		panic(&Exceeded{fmt.Sprintf("it allocated more than %d bytes", m.limits.Bytes)})
	}
	m.bytes += n
	m.Work(1 + n/bytesPerStep)
}

// Scan counts an operation that looks at all bytes of the strings among vs: a comparison, or a search in a table.
func (m *Meter) Scan(vs ...Value) {
	for _, v := range vs {
		if s, ok := v.(string); ok {
			m.Work(int64(len(s)) / bytesPerStep)
		}
	}
}

// Catch converts the panics of this package to an error. It is for defer, and panics again with others.
func Catch(err *error) {
	switch e := recover().(type) {
	case nil:
	case *Exceeded:
		*err = e
	case *Fault:
		*err = e
	default:
		panic(e)
	}
}

// Failf panics with a Fault.
func Failf(format string, args ...any) {
	panic(&Fault{fmt.Sprintf(format, args...)})
}
