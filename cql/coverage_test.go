package cql

import (
	"os"
	"regexp"
	"sort"
	"strings"
	"testing"

	"github.com/antlr4-go/antlr/v4"
	"github.com/cockroachdb/datadriven"

	"cqld/grammar"
)

// TestCorpusVisitsTheGrammar checks that the corpus contains every production: every token and rule in the body of a
// grammar rule is a child of that rule in the tree of some statement.
func TestCorpusVisitsTheGrammar(t *testing.T) {
	seen := map[string]bool{}
	datadriven.Walk(t, "testdata/parse", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string {
			p := newParser()
			p.read(d.Input)
			if tree, ok := p.tree(antlr.PredictionModeLL); ok {
				visit(tree, seen)
			}
			return d.Expected
		})
	})
	var missing []string
	for _, production := range productions(t) {
		if !seen[production] {
			missing = append(missing, production)
		}
	}
	if len(missing) > 0 {
		t.Fatalf("%d productions are in no statement of testdata/parse:\n%s", len(missing), strings.Join(missing, "\n"))
	}
}

func visit(tree antlr.Tree, seen map[string]bool) {
	parser := &grammar.CqlParserParserStaticData
	rule := tree.(antlr.RuleContext).GetRuleIndex()
	for _, child := range tree.GetChildren() {
		name := ""
		if token := tokenOf(child); token != nil {
			name = "EOF"
			if kind := token.GetTokenType(); kind != antlr.TokenEOF {
				name = parser.SymbolicNames[kind]
			}
		} else {
			visit(child, seen)
			name = parser.RuleNames[child.(antlr.RuleContext).GetRuleIndex()]
		}
		seen[parser.RuleNames[rule]+" > "+name] = true
	}
}

// productions returns "rule > symbol" for each symbol in the body of each rule.
func productions(t *testing.T) []string {
	text, err := os.ReadFile("../grammar/CqlParser.g4")
	if err != nil {
		t.Fatal(err)
	}
	source := regexp.MustCompile(`(?m)//.*$`).ReplaceAllString(string(text), "")
	source = source[strings.Index(source, "root"):]
	unique := map[string]bool{}
	rules := 0
	for _, m := range regexp.MustCompile(`(?s)(\w+)\s*:(.*?);`).FindAllStringSubmatch(source, -1) {
		rules++
		for _, symbol := range regexp.MustCompile(`\w+`).FindAllString(m[2], -1) {
			unique[m[1]+" > "+symbol] = true
		}
	}
	if want := len(grammar.CqlParserParserStaticData.RuleNames); rules != want {
		t.Fatalf("found %d rules in CqlParser.g4, the parser has %d", rules, want)
	}
	var out []string
	for p := range unique {
		out = append(out, p)
	}
	sort.Strings(out)
	return out
}
