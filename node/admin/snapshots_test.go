package admin

import (
	"errors"
	"slices"
	"testing"

	"cqld/ring"
	"cqld/schema"
	"cqld/storage/database"
	"cqld/storage/lost"
)

// TestSnapshotReportsMissingData checks that lost ranges and corrupt files are reported by table and file.
func TestSnapshotReportsMissingData(t *testing.T) {
	catalog := schema.Initial()
	table := catalog.Table("system", "paxos")
	got := lacking(
		[]lost.Range{{Table: table.StorageID, Tokens: ring.Range{Start: 1, End: 9}, Path: "/data/000012.sst"},
			{Table: 1 << 20, Path: "/data/000013.sst"}},
		[]database.CorruptionInfo{{Path: "/data/000014.sst", Err: errors.New("checksum")}}, catalog)
	want := []string{
		"system.paxos, tokens (1, 9]: lost with 000012.sst, not repaired yet",
		"a dropped table, tokens (0, 0]: lost with 000013.sst, not repaired yet",
		"data of 000014.sst: the file is corrupt",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := lacking(nil, nil, catalog); got != nil {
		t.Errorf("a sound node's snapshot lacks %q", got)
	}
}
