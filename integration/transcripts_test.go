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

// statementsMin is the minimum number of recorded statements in the transcripts.
const statementsMin = 600

// TestTranscripts plays every transcript. The answers in the files were recorded from Cassandra: with CQLD_ORACLE set to
// the address of a Cassandra node the files are played against that (and -rewrite records them again), otherwise against
// a node of the ring.
func TestTranscripts(t *testing.T) {
	address := os.Getenv("CQLD_ORACLE")
	if address == "" {
		if rewriting() {
			t.Fatal("answers are recorded from Cassandra only: set CQLD_ORACLE to its address")
		}
		address = ringAddress(t)
	}
	files, err := filepath.Glob("testdata/cql/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			p, err := transcript.Open(address, name)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				total += p.Statements
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
					differences = append(differences, fmt.Sprintf("%s:\n%s\n---- want\n%s---- got\n%s", d.Pos, d.Input, d.Expected, text))
					return d.Expected
				}
				return text
			})
			for _, d := range differences {
				t.Error(d)
			}
		})
	}
	t.Logf("%d statements", total)
	if !t.Failed() && total < statementsMin && allSelected() {
		t.Errorf("%d statements played, want at least %d", total, statementsMin)
	}
}

func rewriting() bool { return flag.Lookup("rewrite").Value.String() == "true" }

// allSelected reports whether no -run pattern selects single transcripts.
func allSelected() bool { return !strings.Contains(flag.Lookup("test.run").Value.String(), "/") }
