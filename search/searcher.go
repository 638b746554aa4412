package search

import (
	"errors"

	"cqld/coordinator"
	"cqld/internal/env"
)

// Search calls done exactly once, possibly before it returns: with a result, with NotBuilt, or with an error of a read of package
// coordinator. req must not change until then.
func (s *Searcher) Search(req *Request, done func(*Result, error)) {
	if s.view.Schema().TableByStorage(req.Table.StorageID) == nil {
		done(nil, &coordinator.UnknownTable{Table: req.Table.StorageID})
		return
	}
	if req.Cancel.Err() != nil {
		done(nil, env.ErrCanceled)
		return
	}
	done(nil, errors.New("search: under construction"))
}
