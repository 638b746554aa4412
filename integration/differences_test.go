//go:build integration

package integration

import (
	"os"
	"strings"
	"testing"
)

// differencesPage describes the deliberate differences from Cassandra.
const differencesPage = "../docs/differences.md"

// TestDifferencesAreDocumented plays statements whose answers differ from Cassandra's. Each block quotes the page that
// describes it, and fails if the page has no such text, if cqld's answer changes, or if it becomes Cassandra's: then
// the page is to be corrected. With CQLD_ORACLE, the answers of Cassandra are compared, and recorded with -rewrite.
func TestDifferencesAreDocumented(t *testing.T) {
	const recorded, own = "testdata/differences/cassandra.txt", "testdata/differences/cqld.txt"
	page, err := os.ReadFile(differencesPage)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(page)), " ")
	cassandra := readBlocks(t, recorded)
	for _, b := range cassandra {
		if !strings.Contains(text, b.quote) {
			t.Errorf("%s does not contain %q", differencesPage, b.quote)
		}
	}
	file, address := recorded, os.Getenv("CQLD_ORACLE")
	if address == "" {
		file, address = own, ringAddress(t)
	}
	playTranscript(t, address, "differences", file)
	if file != own {
		return
	}
	cqld := readBlocks(t, own)
	if len(cqld) != len(cassandra) {
		t.Fatalf("%s has %d blocks, %s %d", own, len(cqld), recorded, len(cassandra))
	}
	same := map[string]bool{} // quotes whose blocks are all equal
	for i, b := range cqld {
		if b.quote != cassandra[i].quote || b.input != cassandra[i].input {
			t.Errorf("block %d: the files have different statements:\n%s\n%s", i, b.input, cassandra[i].input)
		}
		if before, ok := same[b.quote]; !ok || before {
			same[b.quote] = b.answer == cassandra[i].answer
		}
	}
	for quote, is := range same {
		if is {
			t.Errorf("%q is no difference: the answers are equal", quote)
		}
	}
}

// documented is a block of statements with a quotation of the page.
type documented struct{ quote, input, answer string }

func readBlocks(t *testing.T, file string) (out []documented) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(content), "\n\n") {
		part = strings.TrimSpace(part)
		quote, rest, _ := strings.Cut(part, "\n")
		if input, answer, ok := strings.Cut(rest+"\n", "\n----\n"); ok && strings.HasPrefix(quote, "# ") {
			out = append(out, documented{strings.TrimPrefix(quote, "# "), input, strings.TrimSpace(answer)})
		} else if strings.Contains(part, "----") {
			t.Errorf("%s: a block has no quotation of %s:\n%s", file, differencesPage, part)
		}
	}
	return out
}
