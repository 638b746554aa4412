//go:build integration

package integration

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/integration/transcript"
	"cqld/internal/model/generate"
)

// openBoth connects to Cassandra, at the address CQLD_ORACLE, and to a node.
func openBoth(t *testing.T) (players [2]*transcript.Player) {
	oracle := os.Getenv("CQLD_ORACLE")
	if oracle == "" {
		t.Skip("CQLD_ORACLE is not set; recorded statements are replayed by TestTranscripts")
	}
	node := os.Getenv("CQLD_NODE")
	if node == "" {
		node = ringAddress(t)
	}
	for i, address := range []string{oracle, node} {
		p, err := transcript.Open(address, *generatedKeyspace)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		players[i] = p
	}
	return players
}

// differential compares the answers of Cassandra with those of a node, table by table.
type differential struct {
	t                   *testing.T
	oracle, node        *transcript.Player
	compared, different int

	seed        uint64
	definitions []string
	history     []string
	reported    bool
	diverged    bool // the data differ because of a documented fault: later answers differ as well
	table       comparedTable
	documented  map[string]int // excluded differences by name
}

// begin creates the objects of a table.
func (d *differential) begin(seed uint64, definitions []string) {
	d.seed, d.definitions, d.history, d.reported, d.table = seed, definitions, nil, false, comparedTable{}
	d.diverged = false
	for _, x := range definitions {
		d.run(x+";", false)
	}
}

// run executes one statement on both, and compares the answers, or only the rows of all pages.
func (d *differential) run(input string, rowsOnly bool, options ...string) {
	want, got := comparable(d.askOracle(input, options)), comparable(play(d.node, input, options...))
	for try := 0; try < 5 && want != got && strings.Contains(input, "SELECT ") && d.table.hasClass("SASI"); try++ {
		time.Sleep(sasiDelay)
		want = comparable(d.askOracle(input, options))
	}
	d.compare(input, want, got, rowsOnly, options)
}

// request executes a request on both, and compares the answers.
func (d *differential) request(x generate.Request) {
	want, got := comparable(playRequest(d.oracle, x)), comparable(playRequest(d.node, x))
	d.compare(x.Head()+"\n"+x.Input, want, got, false, x.Options)
}

// compare counts a statement with both answers, and reports a difference that is not documented.
func (d *differential) compare(input, want, got string, rowsOnly bool, options []string) {
	d.compared++
	d.history = append(d.history, input)
	if want == got {
		d.table.executed(input, want)
	}
	switch {
	case want == got || rowsOnly && slices.Equal(rowsOf(want), rowsOf(got)) || reordered(input, want, got):
		return
	case d.asDocumented(&comparison{input, want, got, options, &d.table}):
		// At ANY, and in a batch at NODE_LOCAL, other statements of the request may have been executed.
		d.diverged = d.diverged || strings.HasPrefix(want, "WRITE_FAILURE: ") ||
			strings.HasPrefix(want, "WRITE_TIMEOUT: ") || strings.HasPrefix(want, "ok\n") ||
			strings.HasPrefix(got, "INVALID: NODE_LOCAL ")
		if strings.HasPrefix(got, "created ") {
			d.table.executed(input, got)
		}
		return
	}
	if d.different++; d.different > 60 {
		return
	}
	if !d.reported {
		d.reported = true
		d.t.Logf("before:\n%s", strings.Join(d.history, "\n"))
	}
	d.t.Errorf("seed %d: %s\n%s %v\n---- Cassandra\n%s---- cqld\n%s", d.seed, d.definitions, input, options, want, got)
}

// sasiDelay is the time after which a search that differs is repeated on Cassandra. For a moment after a SASI index was
// built, searches miss rows that were written before.
const sasiDelay = 500 * time.Millisecond

// askOracle executes one statement on Cassandra. A SELECT is executed again while an index that it uses is being built,
// and a statement that Cassandra has removed from its cache is prepared again.
func (d *differential) askOracle(input string, options []string) string {
	for try := 0; ; try++ {
		text := play(d.oracle, input, options...)
		if m := createdIndex.FindStringSubmatch(input); m != nil && strings.Contains(text, "updated table") {
			d.awaitIndex(m[1])
		}
		if try < 10 && strings.HasPrefix(text, "UNPREPARED: ") {
			continue
		}
		if try == 10 || !strings.Contains("\n"+text, "\nREAD_FAILURE: ") || !strings.Contains(input, "SELECT ") {
			return text
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// awaitIndex waits until Cassandra has built an index. Searches by SASI indexes miss rows until then, without an error.
func (d *differential) awaitIndex(name string) {
	query := fmt.Sprintf("SELECT index_name FROM system.\"IndexInfo\" WHERE table_name = '%s' AND index_name = '%s';",
		*generatedKeyspace, name)
	for range 200 {
		if strings.Contains(play(d.oracle, query), "(1 rows)") {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	d.t.Logf("Cassandra has not built the index %s in 10 s", name)
}

// hasClass reports whether an index of the table has a class.
func (t *comparedTable) hasClass(class string) bool {
	return slices.ContainsFunc(t.indexes, func(ix comparedIndex) bool { return ix.class == class })
}

// asDocumented reports whether docs/differences.md describes the difference, and counts it.
func (d *differential) asDocumented(c *comparison) bool {
	for _, x := range asDocumented {
		if x.matches(c) {
			if d.documented == nil {
				d.documented = map[string]int{}
			}
			d.documented[x.name]++
			return true
		}
	}
	return false
}

// report logs the numbers of statements.
func (d *differential) report() {
	d.t.Logf("%d statements, %d differ", d.compared, d.different)
	for _, name := range slices.Sorted(maps.Keys(d.documented)) {
		d.t.Logf("%d differ as documented: %s", d.documented[name], name)
	}
}

// end executes statements that drop the objects of a table, without comparison.
func (d *differential) end(statements []string) {
	for _, x := range statements {
		play(d.oracle, x)
		play(d.node, x)
	}
}

// signatures matches the list of a function's signatures in an error, whose order varies in Cassandra.
var signatures = regexp.MustCompile(`(known type|following) signatures: .*\)`)

// experimental matches warnings of Cassandra that cqld does not send, or sends less often.
var experimental = regexp.MustCompile(`(?m)^warning: (SELECT queries with ORDER BY \.\.\. ANN OF.*(\n.*)*?\n ?\* Filters on columns.*)\n`)

// staticOfView matches an error that names one of several columns, in the order of a hash table.
var staticOfView = regexp.MustCompile(`static column '\w+' in materialized view`)

// illegalOfView matches an error that names several columns, in the order of a hash table.
var illegalOfView = regexp.MustCompile(`\(got: [\w,]+ restricted illegally\)`)

// dependentIndexes matches the list of indexes in an error, in the order of a hash table.
var dependentIndexes = regexp.MustCompile(`dependent secondary indexes \(.*\)`)

// inOfView matches a SELECT from a view with IN. Cassandra compares values of a view's partition key in the reverse
// order if it is a descending clustering column of the base table, so that the partitions of IN have another order.
var inOfView = regexp.MustCompile(`FROM o\d+_w\d+ WHERE .*\bIN \(`)

// reordered reports whether two answers to a SELECT that inOfView matches differ in the order of rows only.
func reordered(input, want, got string) bool {
	sorted := func(text string) []string { return slices.Sorted(strings.SplitSeq(text, "\n")) }
	return inOfView.MatchString(input) && slices.Equal(sorted(want), sorted(got))
}

// failedWith matches warnings before an error. Errors of cqld have no warnings.
var failedWith = regexp.MustCompile(`(?m)^warning: .*\n([A-Z_]+: )`)

func comparable(text string) string {
	text = staticOfView.ReplaceAllString(text, "static column in materialized view")
	text = illegalOfView.ReplaceAllString(text, "(got: some restricted illegally)")
	text = dependentIndexes.ReplaceAllString(text, "dependent secondary indexes")
	text = experimental.ReplaceAllString(signatures.ReplaceAllString(text, "$1 signatures"), "")
	return failedWith.ReplaceAllString(text, "$1")
}
