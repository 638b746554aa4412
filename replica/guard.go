package replica

import (
	"cqld/internal/guard"
	"cqld/row"
)

// guardedEngine is an Engine whose reads return an error if they panic. Reads change nothing, so only the request
// fails, and the reader releases its resources as after any error. A panic of a write is handled by storage: it stops
// the node.
type guardedEngine struct {
	Engine
	guard *guard.Guard
}

// GuardReads returns an Engine that converts panics in reads of e to errors; it returns e if the guard is nil.
func GuardReads(e Engine, g *guard.Guard) Engine {
	if g == nil {
		return e
	}
	return guardedEngine{e, g}
}

// Read implements Engine.
func (e guardedEngine) Read(dst []byte, cmd *row.ReadCommand) (page []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			page, err = nil, e.guard.Caught("replica read", p) // dst may have been written to half
		}
	}()
	return e.Engine.Read(dst, cmd)
}

// Newest implements Engine.
func (e guardedEngine) Newest(cmd *row.ReadCommand) (newest int64, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = e.guard.Caught("replica read", p)
		}
	}()
	return e.Engine.Newest(cmd)
}
