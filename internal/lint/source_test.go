package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// parsedPackage is a package of the module, without its tests.
type parsedPackage struct {
	path  string // relative to the module: "server/frame"
	files map[string]*ast.File
	fset  *token.FileSet
	lines map[string]int // by file
	share map[string]commented
}

// commented counts the lines of a file: lines that are not blank, and lines that hold nothing but a comment.
type commented struct{ lines, comments int }

const root = "../.."

// walkFiles calls f with the path and content of each file of the project whose name ends with ext.
func walkFiles(t *testing.T, ext string, f func(path, src string) error) {
	t.Helper()
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
		if !strings.HasSuffix(p, ext) {
			return nil
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return f(p, string(src))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// parsePackages returns every package of the module, without generated files. The tests share the trees, and must not
// change them.
func parsePackages(t *testing.T) map[string]*parsedPackage {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// parsed parses the packages once, which takes as long as most of the tests that read them.
var parsed = sync.OnceValues(func() (map[string]*parsedPackage, error) {
	out := map[string]*parsedPackage{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(p, root), "/"))
		if d.IsDir() {
			base := d.Name()
			if rel != "" && (strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules" ||
				hasOwnModule(p)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		dir := path.Dir(rel)
		r := out[dir]
		if r == nil {
			r = &parsedPackage{path: dir, files: map[string]*ast.File{}, fset: token.NewFileSet(),
				lines: map[string]int{}, share: map[string]commented{}}
			out[dir] = r
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(r.fset, p, src, parser.ParseComments)
		if err != nil {
			return err
		}
		if ast.IsGenerated(f) {
			return nil
		}
		r.files[rel] = f
		r.lines[rel] = strings.Count(string(src), "\n")
		r.share[rel] = countComments(string(src))
		return nil
	})
	return out, err
})

// countComments counts the lines of a file. Block comments count as code: only generated files have them.
func countComments(src string) (n commented) {
	for line := range strings.Lines(src) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		n.lines++
		if strings.HasPrefix(line, "//") {
			n.comments++
		}
	}
	return n
}

// hasOwnModule reports whether a directory below the root is a separate module.
func hasOwnModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil && filepath.Clean(dir) != filepath.Clean(root)
}

// imports returns the import paths of a package, each with one file that imports it.
func (r *parsedPackage) imports() map[string]string {
	out := map[string]string{}
	for name, f := range r.files {
		for _, i := range f.Imports {
			out[strings.Trim(i.Path.Value, `"`)] = name
		}
	}
	return out
}
