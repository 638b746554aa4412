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

// requestsPerSchema is the number of requests that are generated for each schema.
const requestsPerSchema = 200

// newRequests generates the requests of a seed, and returns the generator for its definitions.
func newRequests(seed uint64, keyspace string) (*generate.Requests, []generate.Request) {
	g := generate.NewRequests(rand.New(rand.NewPCG(seed, 6)), keyspace)
	all := make([]generate.Request, requestsPerSchema)
	for i := range all {
		all[i] = g.Next()
	}
	return g, all
}

// TestGeneratedRequestsAnswerAsCassandra sends generated requests with all flags and parameters to Cassandra, at the
// address CQLD_ORACLE, and to a node: QUERY, PREPARE, EXECUTE and BATCH in both protocol versions, valid and invalid.
func TestGeneratedRequestsAnswerAsCassandra(t *testing.T) {
	players := openBoth(t)
	d := &differential{t: t, oracle: players[0], node: players[1]}
	for seed := *generatedSeed; d.compared < *generatedCount; seed++ {
		g, requests := newRequests(seed, *generatedKeyspace)
		d.begin(seed, g.Definitions())
		for _, x := range requests {
			if d.request(x); d.diverged {
				break
			}
		}
		d.end(g.Drops())
	}
	d.report()
}

// TestGeneratedRequestTranscripts writes generated requests as a transcript, on request, with the answers of Cassandra
// that cqld gives, too. -generated-keyspace is the name of the file.
func TestGeneratedRequestTranscripts(t *testing.T) {
	if !*generatedWrite {
		t.Skip("-generated-write is not given")
	}
	players := openBoth(t)
	g, requests := newRequests(*generatedSeed, *generatedKeyspace)
	for i, x := range g.Definitions() {
		requests = append(requests[:i:i], append([]generate.Request{{Directive: "cql", Input: x + ";"}},
			requests[i:]...)...)
	}
	var out strings.Builder
	out.WriteString("# Generated requests. See TestGeneratedRequestTranscripts.\n")
	written := 0
	for _, x := range requests {
		want, got := playRequest(players[0], x), playRequest(players[1], x)
		if want != got {
			t.Logf("%s\n%s\n%s%s", x.Head(), x.Input, want, got)
			continue
		}
		written++
		fmt.Fprintf(&out, "\n%s\n", x.Head())
		if x.Input != "" {
			fmt.Fprintf(&out, "%s\n", x.Input)
		}
		fmt.Fprintf(&out, "----\n%s", datadrivenAnswer(want))
	}
	if err := os.WriteFile("testdata/cql/"+*generatedKeyspace+".txt", []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d requests", written)
}
