//go:build integration

package integration

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"cqld/internal/model/generate"
)

// The sizes of what TestGeneratedPagesAnswerAsCassandra generates for each table.
const (
	pagedRows    = 24
	pagedChanges = 6
	pagedQueries = 16
)

// pageSizes are the sizes in which each query is paged. With few rows in a partition and few partitions, some end
// exactly with the last row or group.
var pageSizes = []int{1, 2, 3, 4, 6, 9, 100}

// TestGeneratedPagesAnswerAsCassandra executes generated queries, most of them with GROUP BY, LIMIT or PER PARTITION
// LIMIT, in pages of every size on Cassandra, at the address CQLD_ORACLE, and on a node. It compares which rows are in
// which page, and which pages have a paging state.
func TestGeneratedPagesAnswerAsCassandra(t *testing.T) {
	players := openBoth(t)
	d := &differential{t: t, oracle: players[0], node: players[1]}
	for seed := *generatedSeed; d.compared < *generatedCount; seed++ {
		r := rand.New(rand.NewPCG(seed, 5))
		table := fmt.Sprintf("g%d", seed)
		g := generate.New(r, table, generate.Options{Types: seed%4 == 0, Groups: true})
		d.begin(seed, g.Definitions())
		for i := range pagedRows {
			d.run(block(g.Row(), i%2 == 0), false)
		}
		for range pagedChanges {
			d.run(block(g.Change(), false), false)
		}
		for i := range pagedQueries {
			q := g.Select()
			for j, size := range pageSizes {
				options := [][]string{{"prepared"}, {"v4"}, nil}[(i+j)%3]
				options = append(options, "states", fmt.Sprintf("page=%d", size))
				d.run(block(q.Statement, (i+j)%3 == 2), false, options...)
			}
		}
		d.end([]string{fmt.Sprintf("DROP TABLE %s;", table)})
	}
	d.report()
}
