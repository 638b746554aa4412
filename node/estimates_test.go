package node

import (
	"slices"
	"testing"
)

// The Spark and Trino drivers query the estimates of one table. The answer must not read samples of all other tables.
func TestEstimateQueryReadsOnlyItsTable(t *testing.T) {
	r := openNodes(t, 67, 1, nil)
	c := r.connect(0)
	r.fill(c, "1", 10)
	r.query(c, "CREATE TABLE k.other (a int PRIMARY KEY)")
	e := r.nodes[0].estimates
	sampled := func() (names []string) {
		for _, id := range e.Tables() {
			names = append(names, r.nodes[0].cluster.Metadata().Schema.TableByStorage(id).Name)
		}
		slices.Sort(names)
		return names
	}
	for _, q := range []struct {
		where string
		want  []string
	}{
		{"keyspace_name = 'none'", nil},
		{"keyspace_name = 'k' AND table_name = 't'", []string{"t"}},
		{"keyspace_name = 'k'", []string{"other", "t"}},
	} {
		for _, table := range []string{"size_estimates", "table_estimates"} {
			a := r.query(c, "SELECT * FROM system."+table+" WHERE "+q.where)
			if got := sampled(); !slices.Equal(got, q.want) || (len(a.Rows) > 0) != (q.want != nil) {
				t.Errorf("%s where %s: %d rows, the node has sampled %v, want %v", table, q.where, len(a.Rows), got,
					q.want)
			}
		}
	}
}
