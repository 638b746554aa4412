package lint

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const formatsFile = "docs/UPGRADING.md"

// TestFormatsAreListed compares the versions of formats in docs/UPGRADING.md with the constants of the code, and finds
// constants that are not listed: a format that no one lists is changed without a reader for the old form.
func TestFormatsAreListed(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, formatsFile))
	if err != nil {
		t.Fatal(err)
	}
	listed, inCode := listedFormats(t, string(b)), formatConstants(t)
	for name, version := range listed {
		if inCode[name] != version {
			t.Errorf("%s lists version %d of %s, the code has %d", formatsFile, version, name, inCode[name])
		}
	}
	for name, version := range inCode {
		if _, ok := listed[name]; !ok {
			t.Errorf("%s does not list %s, version %d", formatsFile, name, version)
		}
	}
}

// listedFormats returns the constants in the third column of the table, with the versions in the fourth.
func listedFormats(t *testing.T, text string) map[string]int {
	out := map[string]int{}
	constant := regexp.MustCompile("`([^`]+)`")
	_, text, ok := strings.Cut(text, "## Formats\n")
	if !ok {
		t.Fatalf("%s has no section of formats", formatsFile)
	}
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) != 7 {
			continue
		}
		versions := strings.Split(cells[4], ",")
		for i, m := range constant.FindAllStringSubmatch(cells[3], -1) {
			v, err := strconv.Atoi(strings.TrimSpace(versions[min(i, len(versions)-1)]))
			if err != nil {
				t.Errorf("%s: %s has no version", formatsFile, m[1])
			}
			out[m[1]] = v
		}
	}
	return out
}

// formatConstants returns the constants of product packages whose names end with Version, Format or Protocol and whose
// values are numbers.
func formatConstants(t *testing.T) map[string]int {
	out := map[string]int{}
	named := regexp.MustCompile(`(^|[a-z])(Version|Format|OldestProtocol)$|^(version|format)$`)
	for pkg, r := range parsePackages(t) {
		if strings.HasPrefix(pkg, "integration") || strings.HasPrefix(pkg, "simulation") ||
			strings.HasPrefix(pkg, "tools") {
			continue
		}
		for _, f := range r.files {
			ast.Inspect(f, func(n ast.Node) bool {
				spec, ok := n.(*ast.ValueSpec)
				if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 || !named.MatchString(spec.Names[0].Name) {
					return true
				}
				if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.INT {
					v, err := strconv.ParseInt(lit.Value, 0, 64)
					if err != nil {
						t.Error(err)
					}
					out[pkg+"."+spec.Names[0].Name] = int(v)
				}
				return true
			})
		}
	}
	return out
}
