package row

import (
	"slices"

	"cqld/ring"
)

// NextPage returns the command that continues a scan of tokens after page, the result of cmd, or nil if page was the
// last one. If a page ends within a partition, the next command reads that partition only. The result does not refer
// to page.
func NextPage(cmd *ReadCommand, page []byte, tokens ring.Range) (*ReadCommand, error) {
	var r PageReader
	var x Row
	var last *PartitionKey
	var clustering []byte
	for r.Reset(page); r.NextPartition(); {
		last, clustering = &PartitionKey{Token: r.Key.Token, Bytes: r.Key.Bytes}, nil
		for r.NextRow(&x) {
			clustering = x.Clustering
		}
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	if end := r.End(); end != nil {
		last, clustering = &PartitionKey{Token: end.Key.Token, Bytes: end.Key.Bytes}, end.Clustering
	}
	next := *cmd
	if !r.More() || last == nil {
		if !cmd.SinglePartition() {
			return nil, nil
		}
		// The partition in which a page ended is complete.
		key := cmd.Key
		next.Key, next.Slices = PartitionKey{}, []Slice{AllRows()}
		next.Range = KeyRange{Tokens: tokens, After: &key}
		return &next, nil
	}
	last.Bytes = slices.Clone(last.Bytes) // the caller may reuse page
	if clustering != nil {
		next.Key, next.Range = *last, KeyRange{}
		next.Slices = []Slice{{Start: After(clustering)}}
		return &next, nil
	}
	next.Range.After = last
	return &next, nil
}
