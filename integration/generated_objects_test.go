//go:build integration

package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
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

// TestGeneratedObjectsAnswerAsCassandra is TestGeneratedStatementsAnswerAsCassandra for tables with indexes, views,
// functions, compact storage and vectors.
func TestGeneratedObjectsAnswerAsCassandra(t *testing.T) {
	players := openBoth(t)
	d := &differential{t: t, oracle: players[0], node: players[1]}
	for seed := *generatedSeed; d.compared < *generatedCount; seed++ {
		s := newObjectScript(seed, *generatedKeyspace)
		d.begin(seed, s.definitions)
		for i, x := range s.steps {
			literal, options := ways(i, x)
			if d.run(block(x.Statement, literal), x.Paged && i%4 == 1, options...); d.diverged {
				break
			}
		}
		d.end(s.drops)
	}
	d.report()
}

// TestGeneratedObjectTranscripts writes generated statements as a transcript, on request, with the answers of
// Cassandra: those that cqld answers in the same way.
func TestGeneratedObjectTranscripts(t *testing.T) {
	if !*generatedWrite {
		t.Skip("-generated-write is not given")
	}
	players := openBoth(t)
	var out strings.Builder
	out.WriteString("# Generated statements. See TestGeneratedObjectTranscripts.\n")
	written := 0
	for seed := *generatedSeed; written < *generatedCount; seed++ {
		s := newObjectScript(seed, *generatedKeyspace)
		for _, x := range s.definitions {
			s.steps = append([]generate.Step{{Statement: generate.Statement{Text: x}}}, s.steps...)
		}
		for i := range s.definitions { // in their order
			s.steps[i].Text = s.definitions[i]
		}
		for i, x := range s.steps {
			literal, options := ways(i, x)
			input := block(x.Statement, literal)
			want, got := play(players[0], input, options...), play(players[1], input, options...)
			query := strings.HasPrefix(x.Text, "SELECT") || strings.HasPrefix(x.Text, "DESCRIBE")
			if want != got && !query {
				t.Logf("seed %d ends at %s: %s%s", seed, input, want, got)
				break
			}
			if want == got && !strings.Contains(want, "signatures") {
				written++
				fmt.Fprintf(&out, "\n%s\n%s\n----\n%s", strings.Join(append([]string{"cql"}, options...), " "), input,
					datadrivenAnswer(want))
			}
		}
		for _, x := range s.drops {
			play(players[0], x)
			play(players[1], x)
		}
	}
	if err := os.WriteFile("testdata/cql/"+*generatedKeyspace+".txt", []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d statements", written)
}

// datadrivenAnswer returns an expected answer, which has double separators if it contains an empty line.
func datadrivenAnswer(text string) string {
	if strings.Contains(text, "\n\n") {
		return "----\n" + text + "----\n----\n"
	}
	return text
}
