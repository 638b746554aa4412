package lint

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

var rewriteArchitecture = flag.Bool("rewrite-architecture", false, "write the tree of packages in docs/ARCHITECTURE.md")

const (
	architectureFile = "docs/ARCHITECTURE.md"
	treeBegins       = "<!-- packages: written by go test ./internal/lint -rewrite-architecture -->\n"
	treeEnds         = "<!-- end of packages -->\n"
)

// TestArchitectureListsPackages compares the tree in docs/ARCHITECTURE.md with the rules of imports and with the first
// sentence of each package comment, so that a package that is added, moved or described again is found there.
func TestArchitectureListsPackages(t *testing.T) {
	name := filepath.Join(root, filepath.FromSlash(architectureFile))
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), treeBegins)
	_, after, closed := strings.Cut(rest, treeEnds)
	if !ok || !closed {
		t.Fatalf("%s: the markers of the tree of packages are missing", architectureFile)
	}
	want := before + treeBegins + packageTree(t) + treeEnds + after
	if want == string(b) {
		return
	}
	if !*rewriteArchitecture {
		t.Fatalf("%s: the tree of packages differs from the package comments; run "+
			"go test ./internal/lint -run TestArchitectureListsPackages -rewrite-architecture", architectureFile)
	}
	if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// packageTree returns the packages with their first sentences. The layers come from allowedImports, from the top to the
// bottom: each package is above all packages that it imports.
func packageTree(t *testing.T) string {
	t.Helper()
	packages := parsePackages(t)
	type layer struct {
		title    string
		packages []string
	}
	var layers []layer
	for line := range strings.Lines(allowedImports) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "# "); ok {
			layers = append(layers, layer{title: strings.TrimSuffix(title, ".")})
		} else if pkg, _, ok := strings.Cut(line, ":"); ok {
			last := &layers[len(layers)-1]
			last.packages = append(last.packages, pkg)
		}
	}
	var out strings.Builder
	for i := len(layers) - 1; i >= 0; i-- {
		fmt.Fprintf(&out, "\n### %s\n\n", layers[i].title)
		for j := len(layers[i].packages) - 1; j >= 0; j-- {
			pkg := layers[i].packages[j]
			writeWrapped(&out, "- `"+pkg+"` "+synopsis(t, pkg, packages[pkg]))
		}
	}
	out.WriteByte('\n')
	return out.String()
}

// writeWrapped writes an entry of a list as lines of at most 120 columns.
func writeWrapped(out *strings.Builder, entry string) {
	column := 0
	for i, word := range strings.Fields(entry) {
		n := len([]rune(word))
		switch {
		case i == 0:
		case column+1+n > columnsMax:
			out.WriteString("\n ")
			column = 1
			fallthrough
		default:
			out.WriteByte(' ')
			column++
		}
		out.WriteString(word)
		column += n
	}
	out.WriteByte('\n')
}

// synopsis returns the first sentence of the comment of a package without its beginning, "Package name".
func synopsis(t *testing.T, pkg string, r *parsedPackage) string {
	t.Helper()
	if r == nil {
		return "" // TestImportsAreAllowed reports it
	}
	for _, f := range packageFiles(r) {
		if f.Doc == nil {
			continue
		}
		sentence := new(doc.Package).Synopsis(f.Doc.Text())
		for _, prefix := range []string{"Package " + f.Name.Name + " ", "Command " + path.Base(pkg) + " "} {
			if s, ok := strings.CutPrefix(sentence, prefix); ok {
				return s
			}
		}
		return sentence
	}
	if len(r.files) > 0 {
		t.Errorf("package %s has no package comment", pkg)
	}
	return "is generated."
}

// packageFiles returns the files of a package, doc.go first.
func packageFiles(r *parsedPackage) (files []*ast.File) {
	for name, f := range r.files {
		if filepath.Base(name) == "doc.go" {
			return []*ast.File{f}
		}
		files = append(files, f)
	}
	return files
}
