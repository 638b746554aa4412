//go:build integration

package integration

import (
	"os"
	"testing"

	"github.com/cockroachdb/datadriven"

	"cqld/integration/process"
	"cqld/integration/transcript"
)

// TestOneNodeTranscripts plays transcripts whose answers depend on a cluster of one node. As for TestTranscripts, the
// answers were recorded from Cassandra, and are recorded again with CQLD_ORACLE and -rewrite.
func TestOneNodeTranscripts(t *testing.T) {
	t.Parallel()
	address := os.Getenv("CQLD_ORACLE")
	if address == "" {
		if rewriting() {
			t.Fatal("answers are recorded from Cassandra only: set CQLD_ORACLE to its address")
		}
		address = startRing(t, process.Options{Nodes: 1}).Servers[0].Address
	}
	datadriven.Walk(t, "testdata/onenode", func(t *testing.T, path string) {
		p, err := transcript.Open(address, "levels")
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			text, err := p.Play(d)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			return text
		})
	})
}
