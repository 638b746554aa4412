package node

import (
	"cqld/search"
	"cqld/storage/index"
)

// indexEntries returns query.Options.IndexEntries, which counts the entries that this node has. ok is false if the
// index cannot be read here, and then the query plan has no estimate. Counting ends at the given maximum. The figure is
// an estimate for EXPLAIN: it covers the token ranges of this replica only, and entries are counted without a check
// whether their rows still match.
func indexEntries(values *index.Values) func(*search.Request, int) (entries int, ok bool) {
	return func(req *search.Request, most int) (entries int, ok bool) {
		entries, err := values.Count(&index.Query{Table: req.Table.StorageID, Index: req.Index,
			Terms: req.Terms, Key: req.Key, Tokens: req.Tokens}, most)
		return entries, err == nil
	}
}
