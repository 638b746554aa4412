package execution

import (
	"cqld/internal/uuid"
	"cqld/request"
)

// Environment provides clocks, UUIDs and warnings to the functions of one statement. It implements function.Env and
// belongs to one statement.
type Environment struct {
	*request.Request // receives the warnings of functions
	ids              *uuid.Source
	// millis is the time of the statement in milliseconds since 1970. It stays the same while the statement runs.
	millis int64
}

// Shrink returns n bytes of the memory that Grow has reserved.
func (e *Environment) Shrink(n int) { e.Memory.Shrink(int64(n)) }

// NowMillis returns the time at which the statement began.
func (e *Environment) NowMillis() int64 { return e.millis }

// TimeUUID returns a new time-based UUID. Its time is the time of the statement. Each call returns a different UUID.
func (e *Environment) TimeUUID() [16]byte { return e.ids.TimeUUID(e.millis) }

// RandomUUID returns a new random UUID.
func (e *Environment) RandomUUID() [16]byte { return e.ids.RandomUUID() }
