package query

import "cqld/coordinator"

// trace collects what happens on the way of one statement; nil when it is not traced.
type trace struct{}

// sink is where the coordinator tells what it does.
func (t *trace) sink() coordinator.Trace { return nil }

// traced executes f, and when the request asks for it writes down how it went.
func (p *Processor) traced(_ *Session, _ *Params, _, _ string, f func(*trace) (*Result, error)) (*Result, error) {
	return f(nil)
}
