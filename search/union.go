package search

import "cqld/storage/index"

// union returns the definitions of the indexes of req.Union. It fails with NotBuilt if this node does not know one.
func (s *Searcher) union(req *Request) ([]index.Definition, error) {
	if len(req.Union) == 0 {
		return nil, nil
	}
	out := make([]index.Definition, len(req.Union))
	for i, b := range req.Union {
		var ok bool
		if out[i], ok = s.definition(req.Table.StorageID, b.Index); !ok {
			return nil, &NotBuilt{Index: b.Index}
		}
	}
	return out, nil
}
