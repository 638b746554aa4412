package lint

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNamedVulnerabilitiesHaveTests checks that the tests in the table of docs/SECURITY-GUIDE.md exist in their
// packages, and that the table has each test that is named after a vulnerability.
func TestNamedVulnerabilitiesHaveTests(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join(root, "docs", "SECURITY-GUIDE.md"))
	if err != nil {
		t.Fatal(err)
	}
	exist := map[string]bool{}
	declared, named := regexp.MustCompile(`(?m)^func (Test\w+)\(`), regexp.MustCompile(`^Test(CVE|Scylla|Azurite)\d`)
	for _, p := range parsePackages(t) {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(p.path), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		name := path.Base(p.path)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
				exist[name+"."+m[1]] = true
				if named.MatchString(m[1]) && !strings.Contains(string(guide), "`"+name+"."+m[1]+"`") {
					t.Errorf("docs/SECURITY-GUIDE.md does not list %s.%s", name, m[1])
				}
			}
		}
	}
	rows := regexp.MustCompile("(?m)^\\| .* \\| `(\\w+\\.Test\\w+)` \\|$").FindAllStringSubmatch(string(guide), -1)
	for _, row := range rows {
		if !exist[row[1]] {
			t.Errorf("docs/SECURITY-GUIDE.md lists %s, which does not exist", row[1])
		}
	}
	if len(rows) < 16 {
		t.Errorf("docs/SECURITY-GUIDE.md lists %d tests", len(rows))
	}
}
