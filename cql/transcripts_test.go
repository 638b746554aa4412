package cql

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/antlr4-go/antlr/v4"
)

// recordedAnswers returns the files with answers that were recorded from Cassandra.
func recordedAnswers(t *testing.T) []string {
	var out []string
	// These have thousands of statements of the same few forms.
	repetitive := regexp.MustCompile(`(function_types|restriction_\w+|generated_\w+)\.txt$`)
	// These have cqld's own plans, mutations and errors, which no Cassandra has recorded.
	own := regexp.MustCompile(`query/(definition|restriction|selection)/testdata/\w+\.txt$|/mutation\.txt$`)
	for _, root := range []string{"../integration/testdata", "../internal/matrix", "../query"} {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err == nil && strings.Contains(path, "testdata") && strings.HasSuffix(path, ".txt") &&
				!repetitive.MatchString(path) && !own.MatchString(filepath.ToSlash(path)) {
				out = append(out, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(out) < 50 {
		t.Fatalf("only %d files with recorded answers", len(out))
	}
	return out
}

// TestTranscriptsVisitTheGrammar checks that recorded statements contain every production of the grammar.
func TestTranscriptsVisitTheGrammar(t *testing.T) {
	seen, shapes := map[string]bool{}, map[string]bool{}
	values := regexp.MustCompile(`'[^']*'|0x[0-9a-f]*|-?[0-9]+`)
	p := newParser()
	for _, file := range recordedAnswers(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, statement := range candidates(string(text)) {
			shape := values.ReplaceAllString(statement, "0")
			if shapes[shape] {
				continue
			}
			shapes[shape] = true
			p.read(statement)
			if tree, ok := p.tree(antlr.PredictionModeLL); ok {
				visit(tree, seen)
			}
		}
	}
	for _, production := range productions(t) {
		rule, _, _ := strings.Cut(production, " > ")
		if !seen[production] && !slices.Contains(notRecorded(), production) && !slices.Contains(notRecorded(), rule) {
			t.Errorf("no recorded statement contains %s", production)
		}
	}
}

// notRecorded returns productions and rules that Cassandra 5 does not have or that need a configuration of their own,
// and those whose answers are tested elsewhere.
func notRecorded() []string {
	return []string{
		// Extensions: docs/differences.md.
		"keyspaceKeyword > K_SCHEMA", "list > K_SUPERUSERS", "roleOption > K_GENERATED", "userPassword > K_GENERATED",
		"userName > laterKeyword",
		"usingTimeout > ISO_DURATION", "usingTimeout > marker", "commented > K_FIELD", "commented > ident",
		"commented > keyspaceKeyword",
		"likeOption > K_INDEXES", "statement > undropTable", "statement > purgeTable", "undropTable", "purgeTable",
		"statement > undropKeyspace", "statement > purgeKeyspace", "undropKeyspace", "purgeKeyspace",
		"laterKeyword > K_PURGE", "laterKeyword > K_UNDROP", "alterTable > K_PURGE", "alterTable > K_UNDROP",
		// Roles need authentication; the permission matrix has the other forms.
		"alterRole > K_AND", "alterUser > ifExists", "alterUser > userPassword", "createUser > ifNotExists",
		"dropUser > ifExists",
		"permissions > K_PERMISSION", "roleName > STRING_LITERAL", "roleOption > COMMA", "stringSet > COMMA",
		"userName > QUOTED_NAME",
		// Constants of the properties of tables: these values are refused there.
		"constant > ISO_DURATION", "constant > K_NEGATIVE_INFINITY", "constant > K_NEGATIVE_NAN",
		"constant > K_POSITIVE_INFINITY",
		"constant > K_POSITIVE_NAN",
		// Markers with names are recorded in binds.txt. This test does not find them there yet.
		"marker > COLON", "marker > ident",
		// Custom expressions in parentheses belong to OR; the empty name is not a column name.
		"relation > indexExpression", "columnName > EMPTY_QUOTED_NAME",
	}
}

// candidates returns the parts of a file that may be statements. They begin at the start of a line, and end with the
// line, or with a later one that ends with ";".
func candidates(text string) []string {
	verbs := []string{"SELECT", "INSERT", "UPDATE", "DELETE", "BEGIN", "USE", "TRUNCATE", "CREATE", "ALTER", "DROP",
		"GRANT", "REVOKE", "LIST", "ADD",
		"DESCRIBE", "DESC", "COMMENT", "SECURITY"}
	var out, open []string
	for _, line := range strings.Split(text, "\n") {
		word, _, _ := strings.Cut(line, " ")
		switch {
		case slices.Contains(verbs, strings.ToUpper(word)):
			if out = append(out, line); !inBatch(open) {
				open = nil
			}
		case line == "" || strings.HasPrefix(line, "----"):
			open = nil
			continue
		case len(open) == 0:
			continue
		}
		if open = append(open, line); strings.HasSuffix(line, ";") && !inBatch(open) {
			out, open = append(out, strings.Join(open, "\n")), nil
		}
	}
	return out
}

// inBatch reports whether the lines are the beginning of a batch.
func inBatch(lines []string) bool {
	return len(lines) > 0 && strings.HasPrefix(strings.ToUpper(lines[0]), "BEGIN") &&
		!strings.Contains(strings.ToUpper(lines[len(lines)-1]), "APPLY")
}
