package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestLinesFitColumns refuses lines of Go, tests included, with more than columnsMax columns. A raw string cannot be
// divided, so the lines of one may be longer.
func TestLinesFitColumns(t *testing.T) {
	walkFiles(t, ".go", func(p, src string) error {
		if !hasWideLine(src) { // spares parsing
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, p, src, parser.ParseComments)
		if err != nil {
			return err
		}
		if ast.IsGenerated(f) {
			return nil
		}
		raw := rawStringLines(fset, f)
		for i, line := range strings.Split(src, "\n") {
			if n := columns(line); n > columnsMax && !raw[i+1] {
				t.Errorf("%s:%d has %d columns", p, i+1, n)
			}
		}
		return nil
	})
}

// TestDocumentsFitColumns refuses wide lines of Markdown outside tables and blocks of code, unless the line is a single
// word, link or span of code, which cannot be divided.
func TestDocumentsFitColumns(t *testing.T) {
	for p, src := range documents(t) {
		code := false
		for i, line := range strings.Split(src, "\n") {
			text := strings.TrimSpace(line)
			if strings.HasPrefix(text, "```") {
				code = !code
			}
			if code || strings.HasPrefix(text, "|") || strings.HasPrefix(line, "    ") {
				continue
			}
			if n := columns(line); n > columnsMax && strings.Contains(undivided.ReplaceAllString(text, ""), " ") {
				t.Errorf("%s:%d has %d columns", p, i+1, n)
			}
		}
	}
}

// undivided matches the mark of a list's item, spans of code and links.
var undivided = regexp.MustCompile("^(?:[-*]|[0-9]+\\.) +|`[^`]*`|\\[[^]]*\\]\\([^)]*\\)")

// rawStringLines returns the lines of a file that contain a part of a raw string, or a tag of a field.
func rawStringLines(fset *token.FileSet, f *ast.File) map[int]bool {
	lines := map[int]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING && strings.HasPrefix(s.Value, "`") {
			for l := fset.Position(s.Pos()).Line; l <= fset.Position(s.End()).Line; l++ {
				lines[l] = true
			}
		}
		return true
	})
	return lines
}

// columns returns the width of a line, with tabs of four columns.
func columns(line string) int {
	return utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
}

func hasWideLine(src string) bool {
	for line := range strings.SplitSeq(src, "\n") {
		if len(line) > columnsMax/4 && columns(line) > columnsMax {
			return true
		}
	}
	return false
}
