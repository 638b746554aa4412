//go:build integration

package integration

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"cqld/integration/transcript"
	"cqld/internal/model/generate"
)

var (
	generatedCount = flag.Int("generated", 600, "how many generated statements are compared")
	generatedSeed  = flag.Uint64("generated-seed", 1, "first seed of generated statements")

	generatedKeyspace = flag.String("generated-keyspace", "generated", "the keyspace of generated tables")
)

// statementsPerTable is the number of statements generated for each table.
const statementsPerTable = 80

// generatedScript contains the statements of one generated table.
type generatedScript struct {
	seed        uint64
	definitions []string
	statements  []generate.Statement
	queries     map[int]generate.Query // by index of statements
}

// newScript generates a table and statements. wide adds type hints to literals, which then mean another statement than
// bound values, and changes of elements of lists.
func newScript(seed uint64, wide bool) *generatedScript {
	r := rand.New(rand.NewPCG(seed, 2))
	g := generate.New(r, fmt.Sprintf("t%d", seed),
		generate.Options{Types: seed%3 != 0, Stamps: seed%5 == 0, Hints: wide && seed%2 == 0, Elements: wide})
	s := &generatedScript{seed: seed, definitions: g.Definitions(), queries: map[int]generate.Query{}}
	batches := seed%4 == 3 && !g.Stamps && !g.Counters // conditional batches, and the whole table after each
	for i := range statementsPerTable {
		switch n := r.IntN(10); {
		case i < statementsPerTable/4 && n < 7:
			s.statements = append(s.statements, g.Row())
		case batches:
			s.statements = append(s.statements, g.ConditionalBatch(), g.All())
		case n < 4:
			s.statements = append(s.statements, g.Change())
		default:
			q := g.Select()
			s.queries[i] = q
			s.statements = append(s.statements, q.Statement)
		}
	}
	return s
}

// block returns the statement in the format of a transcript, with bound values or literals.
func block(s generate.Statement, literal bool) string {
	if literal {
		return s.Literal() + ";"
	}
	var out strings.Builder
	for i, v := range s.Values {
		if out.WriteString(" "); i == 0 {
			out.Reset()
			out.WriteString("? ")
		}
		if v.Bytes == nil {
			out.WriteString("null")
		} else {
			fmt.Fprintf(&out, "0x%x", v.Bytes)
		}
	}
	if len(s.Values) > 0 {
		out.WriteString("\n")
	}
	return out.String() + s.Text + ";"
}

// play executes one block with options such as "v4", "prepared" and "page=2".
func play(p *transcript.Player, input string, options ...string) string {
	return playRequest(p, generate.Request{Directive: "cql", Options: options, Input: input})
}

// playRequest executes one block of any directive.
func playRequest(p *transcript.Player, x generate.Request) string {
	d := &datadriven.TestData{Cmd: x.Directive, Input: x.Input}
	for _, o := range x.Options {
		name, value, _ := strings.Cut(o, "=")
		a := datadriven.CmdArg{Key: name}
		if value != "" {
			a.Vals = []string{value}
		}
		d.CmdArgs = append(d.CmdArgs, a)
	}
	text, err := p.Play(d)
	if err != nil {
		return "no answer: " + err.Error() + "\n"
	}
	return text
}

// TestGeneratedStatementsAnswerAsCassandra executes generated statements on Cassandra, at the address CQLD_ORACLE, and
// on a node, and compares the answers.
func TestGeneratedStatementsAnswerAsCassandra(t *testing.T) {
	players := openBoth(t)
	d := &differential{t: t, oracle: players[0], node: players[1]}
	for seed := *generatedSeed; d.compared < *generatedCount; seed++ {
		s := newScript(seed, true)
		d.begin(seed, s.definitions)
		for i, x := range s.statements {
			options := [][]string{nil, {"prepared"}, {"v4"}}[i%3]
			d.run(block(x, i%4 == 0 && i%3 != 1), false, options...)
		}
		d.end([]string{fmt.Sprintf("DROP TABLE t%d;", seed)})
	}
	d.report()
}

var generatedWrite = flag.Bool("generated-write", false,
	"write the statements of transcripts/generated_*.txt again; tools/oracle/record adds the answers")

// recordedTables is the number of generated tables in each recorded transcript.
const recordedTables = 5

// TestGeneratedTranscripts writes generated statements as transcripts, on request.
func TestGeneratedTranscripts(t *testing.T) {
	if !*generatedWrite {
		t.Skip("-generated-write is not given")
	}
	seed := *generatedSeed
	for file := 0; file*recordedTables*statementsPerTable < *generatedCount; file++ {
		var out strings.Builder
		out.WriteString("# Generated statements. See TestGeneratedTranscripts.\n")
		for range recordedTables {
			s := newScript(seed, false)
			seed++
			fmt.Fprintf(&out, "\ncql\n%s;\n----\n", strings.Join(s.definitions, ";\n"))
			for from := 0; from < len(s.statements); from += 8 {
				option := []string{"", " prepared", " v4"}[from/8%3]
				fmt.Fprintf(&out, "\ncql%s\n", option)
				for i, x := range s.statements[from:min(from+8, len(s.statements))] {
					out.WriteString(block(x, i%4 == 0 && option != " prepared") + "\n")
				}
				out.WriteString("----\n")
			}
		}
		if err := os.WriteFile(fmt.Sprintf("testdata/cql/generated_%d.txt", file), []byte(out.String()),
			0o644); err != nil {
			t.Fatal(err)
		}
	}
}
