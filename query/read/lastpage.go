package read

import (
	"bytes"

	"cqld/row"
)

// hasNext reports whether further pages may follow the page of run. As in Cassandra, it reports true after a full
// page of groups, and after a full page of several partitions named by WHERE, unless the page completes the last
// group or partition. A client that receives a paging state sends another request, so a wrong true costs a round
// trip, but a wrong false loses rows.
func hasNext(run *reading) bool {
	keys := run.cursor.Keys
	full := uint32(run.count) >= run.pageLimit
	if run.plan.grouped && full && run.grouped.first != nil { // nil for hashed groups
		return !isLast(keys, run.grouped.first.Key.Bytes) || !groupIsLast(run)
	}
	if run.plan.grouped {
		return run.scan.More()
	}
	// For rows without groups, the cursor's position shows whether the last partition was read to its end.
	at := &run.cursor.At
	// The partition can have no further row in the result.
	complete := at.Inside && (len(run.plan.table.Clustering) == 0 || at.Done ||
		run.perPartition > 0 && at.Given >= run.perPartition)
	if complete && isLast(keys, at.Key.Bytes) {
		return false
	}
	// As in Cassandra, a full page of several partitions may be followed by an empty one.
	return run.scan.More() || full && len(keys) > 1
}

// groupIsLast reports whether no group of its partition can follow the last group of run. run.grouped.first must be
// set. After endGroup, it is still the first row of the last group.
func groupIsLast(run *reading) bool {
	// A partition without clustering columns, or with a static row alone, has one group.
	oneRow := len(run.plan.table.Clustering) == 0 || run.grouped.first.Clustering == nil
	return oneRow || run.perPartition > 0 && run.grouped.previous+1 >= run.perPartition
}

// isLast reports whether key is the last of the partitions that WHERE names. keys is in the order in which partitions
// are read.
func isLast(keys []row.PartitionKey, key []byte) bool {
	// Without named partitions, any partition of the range may follow.
	return len(keys) > 0 && bytes.Equal(keys[len(keys)-1].Bytes, key)
}
