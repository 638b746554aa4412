//go:build integration

package integration

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"cqld/internal/model/generate"
)

// objectScript contains the statements of one generated table with indexes, views or functions.
type objectScript struct {
	definitions []string
	steps       []generate.Step
	drops       []string
}

func newObjectScript(seed uint64, keyspace string) *objectScript {
	r := rand.New(rand.NewPCG(seed, 3))
	o := generate.NewObjects(r, fmt.Sprintf("o%d", seed), generate.Theme(seed%uint64(generate.Themes)))
	s := &objectScript{definitions: o.Definitions()}
	for i := range statementsPerTable {
		var x generate.Step
		switch n := r.IntN(20); {
		case i < statementsPerTable/5:
			x.Statement = o.Row()
		case i < statementsPerTable/5+4 || n == 0:
			x = o.Define()
		case n == 1 && i > statementsPerTable/2:
			x = o.Alter()
		case n < 7:
			x.Statement = o.Change()
		default:
			x = o.Query()
		}
		x.Text = strings.ReplaceAll(x.Text, "%KEYSPACE%", keyspace)
		s.steps = append(s.steps, x)
	}
	s.drops = o.Drops()
	return s
}

// ways returns how the step is executed: as text, prepared, with the older protocol, or in pages.
func ways(i int, x generate.Step) (literal bool, options []string) {
	if len(x.Options) > 0 {
		return true, x.Options
	}
	options = [][]string{nil, {"prepared"}, {"v4"}, nil, {"prepared"}}[i%5]
	if x.Paged && i%4 == 1 {
		options = append([]string{"page=2"}, options...)
	}
	return i%5 == 0 || i%5 == 2 && i%2 == 0, options
}

// TestGeneratedObjectsAnswerAsCassandra is TestGeneratedStatementsAnswerAsCassandra for tables with indexes, views, functions, compact
// storage and vectors.
func TestGeneratedObjectsAnswerAsCassandra(t *testing.T) {
	players := openBoth(t)
	d := &differential{t: t, oracle: players[0], node: players[1]}
	for seed := *generatedSeed; d.compared < *generatedCount; seed++ {
		s := newObjectScript(seed, *generatedKeyspace)
		d.begin(seed, s.definitions)
		for i, x := range s.steps {
			literal, options := ways(i, x)
			d.run(block(x.Statement, literal), x.Paged && i%4 == 1, options...)
		}
		d.end(s.drops)
	}
	t.Logf("%d statements, %d differ, %d fail with an exception in Cassandra", d.compared, d.different, d.excluded)
}
