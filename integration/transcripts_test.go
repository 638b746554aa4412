//go:build integration

package integration

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"cqld/integration/transcript"
)

// statementsMin is the minimum number of recorded statements in the transcripts of Cassandra 5.
const statementsMin = 600

// TestTranscripts plays every transcript of Cassandra 5. The answers in the files were recorded from Cassandra: with
// CQLD_ORACLE set to the address of a Cassandra node the files are played against that (and -rewrite records them
// again), otherwise against a node of the ring.
func TestTranscripts(t *testing.T) {
	total := playTranscripts(t, "testdata/cql/*.txt", "CQLD_ORACLE")
	if !t.Failed() && total < statementsMin && allSelected() {
		t.Errorf("%d statements played, want at least %d", total, statementsMin)
	}
}

// TestTranscriptsOfCassandra6 plays the transcripts that were recorded from Cassandra 6.0-alpha2: the statements that
// Cassandra 5 does not have. CQLD_ORACLE6 is the address of a node of that version.
func TestTranscriptsOfCassandra6(t *testing.T) {
	if total := playTranscripts(t, "testdata/cql6/*.txt", "CQLD_ORACLE6"); total == 0 && allSelected() {
		t.Error("no statement was played")
	}
}

// playTranscripts plays the files that a pattern selects, and returns the number of statements. The environment
// variable oracle names the node of Cassandra from which they are recorded.
func playTranscripts(t *testing.T, pattern, oracle string) (total int) {
	address := os.Getenv(oracle)
	if address == "" {
		if rewriting() {
			t.Skipf("answers are recorded from Cassandra only: set %s to its address", oracle)
		}
		address = ringAddress(t)
	}
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) { total += playTranscript(t, address, name, file) })
	}
	t.Logf("%d statements", total)
	return total
}

// playTranscript plays one file in a keyspace of its name.
func playTranscript(t *testing.T, address, name, file string) int {
	p, err := transcript.Open(address, name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	// Not datadriven's own comparison, which ends the file at the first difference.
	var differences []string
	datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
		text, err := p.Play(d)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		if !rewriting() && text != d.Expected {
			differences = append(differences, fmt.Sprintf("%s:\n%s\n---- want\n%s---- got\n%s", d.Pos, d.Input,
				d.Expected, text))
			return d.Expected
		}
		return text
	})
	for _, d := range differences {
		t.Error(d)
	}
	return p.Statements
}

func rewriting() bool { return flag.Lookup("rewrite").Value.String() == "true" }

// allSelected reports whether no -run pattern selects single transcripts.
func allSelected() bool { return !strings.Contains(flag.Lookup("test.run").Value.String(), "/") }
