//go:build integration

package integration

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"cqld/internal/model/generate"
)

// The sizes of what TestGeneratedBesideObjectsAnswerAsCassandra generates for each table.
const (
	besideRows    = 24
	besideQueries = 20
	besideRefused = 5
	besideObjects = 3
)

// TestGeneratedBesideObjectsAnswerAsCassandra executes generated queries, and changes that are refused, on Cassandra,
// at the address CQLD_ORACLE, and on a node: again after an index, a view or a mask was added to their table.
func TestGeneratedBesideObjectsAnswerAsCassandra(t *testing.T) {
	players := openBoth(t)
	d := &differential{t: t, oracle: players[0], node: players[1]}
	for seed := *generatedSeed; d.compared < *generatedCount; seed++ {
		r := rand.New(rand.NewPCG(seed, 4))
		table := fmt.Sprintf("b%d", seed)
		g := generate.New(r, table, generate.Options{Types: seed%2 == 0, Filters: seed%4 < 2, Ranges: true,
			Hints: seed%3 == 0})
		d.begin(seed, g.Definitions())
		for i := range besideRows {
			d.run(block(g.Row(), i%2 == 0), false)
		}
		for range besideRows / 4 {
			d.run(block(g.Change(), false), false)
		}
		var corpus []generate.Statement
		for range besideQueries {
			corpus = append(corpus, g.Select().Statement)
		}
		for range besideRefused {
			corpus = append(corpus, g.Refused())
		}
		all := func() {
			for i, x := range corpus {
				d.run(block(x, i%3 == 0), false, [][]string{nil, {"prepared"}, {"v4"}}[i%3]...)
			}
		}
		all()
		for i := range besideObjects {
			x := g.Beside(fmt.Sprintf("%s_x%d", table, i))
			d.run(x.Create+";", false)
			all()
			d.end([]string{x.Drop + ";"})
			d.table.executed(x.Drop+";", "updated table")
		}
		d.end([]string{fmt.Sprintf("DROP TABLE %s;", table)})
	}
	d.report()
}
