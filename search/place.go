package search

import (
	"cqld/row"
	"cqld/storage/index"
)

// AfterPartition returns the position in ByToken after all rows of a partition.
func AfterPartition(key row.PartitionKey) Position { return index.AppendPlaceEnd(nil, key) }

// PositionOfScan returns a position in ByToken as a position of a scan. It is not ok if no partition is named by p,
// which then lies between partitions. Its slices point into p.
func PositionOfScan(p Position) (at *row.Position, ok bool) {
	key, kind, clustering, ok := index.ParsePlace(p)
	if !ok {
		return nil, false
	}
	return &row.Position{Key: key, Whole: kind != row.KindRow, Clustering: clustering}, true
}
