package node

import (
	"cqld/search"
	"cqld/storage/index"
)

// indexEntries implements query.Options.IndexEntries with the entries that this node has.
func (n *Node) indexEntries(req *search.Request, most int) (entries int, ok bool) {
	entries, err := n.instance.Values.Count(&index.Query{Table: req.Table.StorageID, Index: req.Index,
		Terms: req.Terms, Key: req.Key,
		Tokens: req.Tokens}, most)
	return entries, err == nil
}
