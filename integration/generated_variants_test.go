//go:build integration

package integration

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/integration/process"
	"cqld/integration/transcript"
	"cqld/internal/model/generate"
)

// rowsOf returns the rows of a rendered answer, of all its pages, or the answer itself if it has none. Column names and
// warnings are not compared: they differ between literals and bound values, and are repeated on every page.
func rowsOf(text string) []string {
	var rows []string
	header, any := true, false
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "warning: "):
		case line == "-- next page":
			header = true
		case strings.HasPrefix(line, "(") && strings.HasSuffix(line, " rows)"):
			any = true
		case header:
			header = false
		default:
			rows = append(rows, line)
		}
	}
	if !any {
		return []string{text}
	}
	return rows
}

// variant is one way of executing a statement.
type variant struct {
	literal bool
	options []string
}

func variants(q generate.Query) []variant {
	all := []variant{
		{literal: true}, {options: []string{"prepared"}}, {options: []string{"v4"}},
		{options: []string{"v4", "prepared"}},
	}
	if !q.Sorted { // answers that are sorted over several partitions have no pages
		all = append(all, variant{options: []string{"page=1"}}, variant{options: []string{"page=2", "prepared"}},
			variant{options: []string{"page=7", "v4"}}, variant{literal: true, options: []string{"page=2"}})
	}
	return all
}

// TestGeneratedVariantsAgree executes generated queries with literals, with bound values, prepared, in both protocol
// versions, and with pages of 1, 2 and 7 rows, and compares the rows.
func TestGeneratedVariantsAgree(t *testing.T) {
	p, err := transcript.OpenReplicated(ringAddress(t), "generated_variants", 3)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	compared := 0
	for seed := *generatedSeed; compared < *generatedCount; seed++ {
		s := newScript(seed, false)
		play(p, strings.Join(s.definitions, ";\n")+";")
		for i, x := range s.statements {
			q, isQuery := s.queries[i]
			want := play(p, block(x, false), "consistency=QUORUM")
			if !isQuery {
				continue
			}
			for _, v := range variants(q) {
				compared++
				if got := play(p, block(x, v.literal), append(v.options,
					"consistency=QUORUM")...); !slices.Equal(rowsOf(got), rowsOf(want)) {
					t.Errorf("seed %d: %s\n%s\n%v\n---- want\n%s---- got\n%s", seed, s.definitions,
						block(x, v.literal), v, want, got)
				}
			}
		}
	}
	t.Logf("%d comparisons", compared)
}

// TestGeneratedStatementsWithADeadNode executes generated statements on a single node, and at QUORUM on a ring of four
// of which one is dead, and compares the answers.
func TestGeneratedStatementsWithADeadNode(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a ring and a node")
	}
	ring := startRing(t, process.Options{Nodes: 4})
	binary, dir := cqld(t)
	alone, err := process.NewRing(binary, dir+"/"+t.Name()+"-alone", process.Options{Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := alone.Start(ringStart); err != nil {
		t.Fatal(err)
	}
	defer alone.Stop()
	ring.Servers[3].Kill()
	time.Sleep(detection + time.Second)
	single, err := transcript.Open(alone.Servers[0].Address, "generated_dead")
	if err != nil {
		t.Fatal(err)
	}
	defer single.Close()
	replicated, err := transcript.OpenReplicated(ring.Servers[0].Address, "generated_dead", 3)
	if err != nil {
		t.Fatal(err)
	}
	defer replicated.Close()
	compared := 0
	for seed := *generatedSeed; compared < *generatedCount; seed++ {
		s := newScript(seed, false)
		inputs := []string{strings.Join(s.definitions, ";\n") + ";"}
		for i, x := range s.statements {
			inputs = append(inputs, block(x, i%3 == 0))
		}
		for _, input := range inputs {
			compared++
			want := play(single, input)
			if got := play(replicated, input, "consistency=QUORUM"); got != want {
				t.Errorf("seed %d: %s\n%s\n---- one node\n%s---- three of four\n%s", seed, s.definitions, input, want,
					got)
			}
		}
	}
	t.Logf("%d statements", compared)
}
