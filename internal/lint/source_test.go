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
	"testing"
)

// room is one package of the module, without its tests.
type room struct {
	path  string // relative to the module: "server/frame"
	files map[string]*ast.File
	fset  *token.FileSet
	lines map[string]int
}

const root = "../.."

// rooms parses every package of the module; generated files are left out.
func rooms(t *testing.T) map[string]*room {
	t.Helper()
	out := map[string]*room{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(p, root), "/"))
		if d.IsDir() {
			base := d.Name()
			if rel != "" && (strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules" || hasOwnModule(p)) {
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
			r = &room{path: dir, files: map[string]*ast.File{}, fset: token.NewFileSet(), lines: map[string]int{}}
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
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// hasOwnModule says whether a directory below the root is a module of its own.
func hasOwnModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil && filepath.Clean(dir) != filepath.Clean(root)
}

// imports are the paths a room imports, each with one file that does.
func (r *room) imports() map[string]string {
	out := map[string]string{}
	for name, f := range r.files {
		for _, i := range f.Imports {
			out[strings.Trim(i.Path.Value, `"`)] = name
		}
	}
	return out
}
