package lint

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documents returns the text of the project's Markdown files by their path from the root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	walkFiles(t, ".md", func(p, src string) error {
		out[filepath.ToSlash(strings.TrimPrefix(p, root+string(filepath.Separator)))] = src
		return nil
	})
	return out
}

// prose returns the text without its fenced code blocks.
func prose(text string) string {
	var out []string
	fenced := false
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if !fenced {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

func TestEveryDocumentHasOneTitle(t *testing.T) {
	for name, text := range documents(t) {
		titles := 0
		for _, line := range strings.Split(prose(text), "\n") {
			if strings.HasPrefix(line, "# ") {
				titles++
			}
		}
		if titles != 1 {
			t.Errorf("%s has %d titles", name, titles)
		}
	}
}

func TestLinksResolve(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for name, text := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(prose(text), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			at := name
			if target != "" {
				at = path.Join(path.Dir(name), target)
			}
			b, err := os.ReadFile(filepath.Join(root, at))
			if err != nil {
				if info, statErr := os.Stat(filepath.Join(root, at)); statErr != nil || !info.IsDir() || anchor != "" {
					t.Errorf("%s links to %s, which is not there", name, m[1])
				}
				continue
			}
			if anchor != "" && !hasAnchor(string(b), anchor) {
				t.Errorf("%s links to %s, which has no such heading", name, m[1])
			}
		}
	}
}

func hasAnchor(text, anchor string) bool {
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, line := range strings.Split(prose(text), "\n") {
		if strings.HasPrefix(line, "#") {
			heading := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
			if strings.ReplaceAll(drop.ReplaceAllString(heading, ""), " ", "-") == anchor {
				return true
			}
		}
	}
	return false
}

// foreign returns the packages of other modules that documents mention.
func foreign() map[string]bool {
	return map[string]bool{"raft": true, "pebble": true, "gocql": true, "time": true, "rand": true, "bytes": true,
		"net": true}
}

// Documents refer to symbols, not to lines, and the symbols must exist: `coordinator.Coordinator.Write`. Names of
// tables and files look alike, so a lower-case name after a dot counts only if no table or file has the name of the
// package.
func TestDocumentedSymbolsExist(t *testing.T) {
	quoted := regexp.MustCompile("`([a-z][a-z0-9]*(?:/[a-z0-9]+)*)\\.([A-Za-z_]\\w*)(?:\\.(\\w+))?(?:\\([^`]*\\))?`")
	namesakes := map[string]bool{"system": true, "cqld": true}
	known := symbols(t)
	checked := 0
	for name, text := range documents(t) {
		if !strings.HasPrefix(name, "docs/") && strings.Contains(name, "/") {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(prose(text), -1) {
			pkg, symbol := m[1], m[2]
			lower := symbol[0] >= 'a' && symbol[0] <= 'z'
			there, exists := known[pkg]
			switch {
			case lower && (!exists || namesakes[pkg] || fileSuffix(symbol)):
				continue
			case foreign()[pkg]:
				continue
			case !exists:
				t.Errorf("%s: %s: there is no package %s", name, m[0], pkg)
				continue
			}
			if m[3] != "" {
				symbol += "." + m[3]
			}
			if strings.HasPrefix(symbol, "Test") {
				continue // docs/MEETINGS.md names tests, and a test of package simulation finds each
			}
			if !there[symbol] {
				t.Errorf("%s: %s is not there", name, m[0])
			}
			checked++
		}
	}
	if checked < 50 {
		t.Errorf("only %d symbols were found: the documents or the pattern have changed", checked)
	}
}

func fileSuffix(s string) bool {
	switch s {
	case "go", "md", "txt", "yaml", "mod", "sum", "java", "sh", "g4", "sock", "token":
		return true
	}
	return false
}

// symbols returns the names of each package, by its path and by the last element of that: functions, types, constants,
// variables, and Type.member for methods and fields.
func symbols(t *testing.T) map[string]map[string]bool {
	t.Helper()
	out := map[string]map[string]bool{}
	for pkg, r := range parsePackages(t) {
		names := map[string]bool{}
		for _, f := range r.files {
			for _, d := range f.Decls {
				declared(d, names)
			}
		}
		out[pkg] = names
		last := path.Base(pkg)
		if _, ok := out[last]; !ok {
			out[last] = map[string]bool{}
		}
		for n := range names {
			out[last][n] = true
		}
	}
	return out
}

func declared(d ast.Decl, names map[string]bool) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names[d.Name.Name] = true
		} else if id := receiver(d); id != "" {
			names[id+"."+d.Name.Name] = true
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names[n.Name] = true
				}
			case *ast.TypeSpec:
				names[s.Name.Name] = true
				for _, m := range members(s.Type) {
					names[s.Name.Name+"."+m] = true
				}
			}
		}
	}
}

func receiver(d *ast.FuncDecl) string {
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
			return x.Name
		default:
			return ""
		}
	}
}

// members returns the fields of a struct or the methods of an interface.
func members(e ast.Expr) (out []string) {
	var list *ast.FieldList
	switch x := e.(type) {
	case *ast.StructType:
		list = x.Fields
	case *ast.InterfaceType:
		list = x.Methods
	default:
		return nil
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			out = append(out, n.Name)
		}
	}
	return out
}
