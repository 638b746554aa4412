package search

import (
	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/schema"
	"cqld/storage/index"
)

// Options configures a Searcher. Coordinator, View, Replicas, Definitions and Clock are required.
type Options struct {
	Coordinator *coordinator.Coordinator
	View        coordinator.View
	Replicas    Replicas
	// Definitions returns the indexes of a table.
	Definitions     func(schema.StorageID) []index.Definition
	Clock           env.Clock
	LocalDatacenter string
	Limits          Limits
	Guard           *guard.Guard // ends searches that panic; nil means that panics are not recovered
}

// Searcher searches for clients of this node. Its methods may be called from any goroutine. It has no state except
// counters, because each search is a separate operation.
type Searcher struct {
	c        *coordinator.Coordinator
	view     coordinator.View
	replicas Replicas
	// These are the functions that replicas use, so that both find the same terms.
	definitions func(schema.StorageID) []index.Definition
	clock       env.Clock
	localDC     string
	limits      Limits
	guard       *guard.Guard // may be nil
	counts      counters
}

// New returns a Searcher.
func New(o Options) *Searcher {
	return &Searcher{c: o.Coordinator, view: o.View, replicas: o.Replicas, definitions: o.Definitions, clock: o.Clock,
		localDC: o.LocalDatacenter, limits: o.Limits.withDefaults(), guard: o.Guard}
}

// definition returns the definition of an index of a table.
func (s *Searcher) definition(table, id schema.StorageID) (d index.Definition, ok bool) {
	for _, d := range s.definitions(table) {
		if d.ID == id {
			return d, true
		}
	}
	return d, false
}
