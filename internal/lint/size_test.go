package lint

import (
	"go/ast"
	"strings"
	"testing"
)

const (
	fileLinesMax     = 600
	functionLinesMax = 80
	packageLinesMax  = 5020 // without comments
	columnsMax       = 120  // with tabs of four columns
)

// exceptions returns files and functions that may be larger, up to the given size. Sizes are only ever reduced.
func exceptions() map[string]int {
	return map[string]int{}
}

// packageLimits returns packages with a limit of their own, in lines that are not comments: those that must still be
// divided, and those that were divided and must not grow again.
func packageLimits() map[string]int {
	return map[string]int{"simulation": 7740, "storage": 2910, "schema": 5720, "query": 1910}
}

func TestFilesAndFunctionsStaySmall(t *testing.T) {
	for pkg, r := range parsePackages(t) {
		total := 0
		for name, f := range r.files {
			total += r.lines[name] - r.share[name].comments
			if r.lines[name] > max(fileLinesMax, exceptions()[name]) {
				t.Errorf("%s has %d lines: perhaps it is two", name, r.lines[name])
			}
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || fn.Body == nil {
					continue
				}
				n := r.fset.Position(fn.End()).Line - r.fset.Position(fn.Pos()).Line + 1
				if n > max(functionLinesMax, exceptions()[name+":"+fn.Name.Name]) {
					t.Errorf("%s: %s has %d lines", r.fset.Position(fn.Pos()), fn.Name.Name, n)
				}
			}
		}
		limit, ok := packageLimits()[pkg]
		if !ok {
			limit = packageLinesMax
		}
		if total > limit {
			t.Errorf("package %s has %d lines: it must be divided", pkg, total)
		}
	}
}

func TestEveryPackageHasAComment(t *testing.T) {
	for pkg, r := range parsePackages(t) {
		documented := len(r.files) == 0 // only generated files
		for _, f := range r.files {
			if f.Doc != nil && len(strings.Fields(f.Doc.Text())) >= 8 {
				documented = true
			}
		}
		if !documented {
			t.Errorf("package %s has no package comment", pkg)
		}
		for _, banned := range []string{"util", "utils", "common", "helpers", "helper", "misc", "base", "manager"} {
			if pkg == banned || strings.HasSuffix(pkg, "/"+banned) {
				t.Errorf("package %s: move it to the package of its subject", pkg)
			}
		}
	}
}

func TestExportedThingsAreDocumented(t *testing.T) {
	for _, r := range parsePackages(t) {
		for _, f := range r.files {
			for _, d := range f.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if d.Name.IsExported() && !selfExplaining(d) && d.Doc == nil &&
						(d.Recv == nil || receiverExported(d)) {
						t.Errorf("%s: %s is exported and undocumented", r.fset.Position(d.Pos()), d.Name.Name)
					}
				case *ast.GenDecl:
					for _, s := range d.Specs {
						if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.IsExported() && d.Doc == nil && ts.Doc == nil {
							t.Errorf("%s: %s is exported and undocumented", r.fset.Position(ts.Pos()), ts.Name.Name)
						}
						if ts, ok := s.(*ast.TypeSpec); ok {
							for _, word := range []string{"Manager", "Helper", "Impl"} {
								if strings.HasSuffix(ts.Name.Name, word) {
									t.Errorf("%s: %s: no %ss here", r.fset.Position(ts.Pos()), ts.Name.Name, word)
								}
							}
						}
					}
				}
			}
		}
	}
}

func receiverExported(d *ast.FuncDecl) bool {
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

// selfExplaining reports whether an interface documents the method.
func selfExplaining(d *ast.FuncDecl) bool {
	switch d.Name.Name {
	case "Error", "String", "Unwrap", "Is", "Len", "Less", "Swap":
		return d.Recv != nil
	}
	return false
}
