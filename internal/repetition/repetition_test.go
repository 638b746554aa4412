package repetition

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryRepetitionOfTheGrammarIsGenerated checks that there is a production for each rule of the grammar that
// repeats a part, or that contains itself.
func TestEveryRepetitionOfTheGrammarIsGenerated(t *testing.T) {
	has := map[string]bool{}
	names := map[string]bool{}
	for _, p := range All() {
		has[p.Rule] = true
		if names[p.String()] {
			t.Errorf("two productions are called %q", p.String())
		}
		names[p.String()] = true
	}
	rules := map[string]bool{}
	for _, file := range []string{"CqlParser.g4", "CqlLexer.g4"} {
		b, err := os.ReadFile(filepath.Join("..", "..", "grammar", file))
		if err != nil {
			t.Fatal(err)
		}
		for name, body := range grammarRules(string(b)) {
			rules[name] = true
			if repeats(name, body) && !has[name] {
				t.Errorf("%s: no production repeats a part of the rule %s", file, name)
			}
		}
	}
	for name := range has {
		if !rules[name] {
			t.Errorf("the grammar has no rule %s", name)
		}
	}
}

// grammarRules returns the rules of a grammar by name, without comments, literals, actions and predicates. Fragments of
// the lexer are parts of other rules.
func grammarRules(text string) map[string]string {
	text = regexp.MustCompile(`(?m)^\s*//.*$`).ReplaceAllString(text, "")
	text = regexp.MustCompile(`\[(\\.|[^\]\\])*\]`).ReplaceAllString(text, "SET")
	text = regexp.MustCompile(`'(\\.|[^'\\])*'`).ReplaceAllString(text, "LITERAL")
	text = regexp.MustCompile(`options \{[^}]*\}|\{[^}]*\}\?`).ReplaceAllString(text, "")
	rules := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(\w+)\s*:([^;]*);`).FindAllStringSubmatch(text, -1) {
		rules[m[1]] = m[2]
	}
	return rules
}

// repeats reports whether a rule repeats a part, or contains itself.
func repeats(name, body string) bool {
	return strings.ContainsAny(body, "*+") || regexp.MustCompile(`\b`+name+`\b`).MatchString(body)
}

// TestProductionsRepeat checks that the length of each statement grows with the number of repetitions.
func TestProductionsRepeat(t *testing.T) {
	for _, p := range All() {
		if few, many := len(p.Text(10)), len(p.Text(1000)); many < few+990 {
			t.Errorf("%s: 10 repetitions have %d bytes, 1000 have %d", p.String(), few, many)
		}
	}
}
