package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestLinesFitColumns refuses lines of Go, tests included, with more than columnsMax columns. A raw string cannot be
// divided, so the lines of one may be longer.
func TestLinesFitColumns(t *testing.T) {
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); p != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "target" ||
				name == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if !hasWideLine(string(src)) { // spares parsing
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
		for i, line := range strings.Split(string(src), "\n") {
			if n := columns(line); n > columnsMax && !raw[i+1] {
				t.Errorf("%s:%d has %d columns", p, i+1, n)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

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
