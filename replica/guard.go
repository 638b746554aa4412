package replica

import (
	"cqld/internal/guard"
	"cqld/row"
)

// guardedEngine is an Engine whose reads answer an error when they panic: they change nothing, so that nothing but the
// request is in doubt, and the reader frees what it holds as after any error. A panic of a write is storage's own
// matter: it stops the node.
type guardedEngine struct {
	Engine
	guard *guard.Guard
}

// GuardReads makes reads of e that panic answer an error. Without a guard it is e.
func GuardReads(e Engine, g *guard.Guard) Engine {
	if g == nil {
		return e
	}
	guarded := guardedEngine{e, g}
	if c, ok := e.(callerCommits); ok {
		return struct {
			guardedEngine
			callerCommits
		}{guarded, c}
	}
	return guarded
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
