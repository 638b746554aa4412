package main

import (
	"context"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cqld/internal/tier"
)

const root = "../.."

func testCatalog(t *testing.T) *catalog {
	t.Helper()
	abs, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newCatalog(abs)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCatalog shows that every pattern of the list by hand still occurs once in its function, that the explanations are
// of mutants that exist, that tests need mutants that exist, and that RESULTS.md reports every mutant of the list by
// hand.
func TestCatalog(t *testing.T) {
	c := testCatalog(t)
	if len(c.mutants) < 60 {
		t.Errorf("only %d mutants", len(c.mutants))
	}
	explained, err := readExplained(c.root)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.checkExplained(explained); err != nil {
		t.Error(err)
	}
	needing := findNeeding(t, c.root)
	needing.checkKeys(t, c)
	document, err := os.ReadFile(c.reportPath())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range c.mutants {
		if m.hand && !strings.Contains(string(document), "`"+m.key+"`") {
			t.Errorf("RESULTS.md does not report %s: run the mutant, then go run ./tools/mutants -rewrite", m.key)
		}
	}
}

// TestRewrittenFilesParse parses every file with all its switches.
func TestRewrittenFilesParse(t *testing.T) {
	for _, files := range testCatalog(t).packages {
		for _, f := range files {
			if len(f.edits) == 0 {
				continue
			}
			if _, err := parser.ParseFile(token.NewFileSet(), f.path, f.rewritten(), 0); err != nil {
				t.Error(err)
			}
		}
	}
}

// parsed is a package of one file.
func parsed(t *testing.T, text string) function {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := parsePackage(dir, ".")
	if err != nil {
		t.Fatal(err)
	}
	return files[0].functions()[0]
}

const example = `package x

func f(a, b, c int) bool {
	// A comment.
	if a < b && b < c {
		return a+1 == c
	}
	return false
}
`

func TestPatternsIgnoreWhiteSpace(t *testing.T) {
	fn := parsed(t, example)
	for _, x := range []struct{ pattern, want, fails string }{
		{"a<b", "a < b", ""},
		{"{ return a + 1 == c", "{\n\t\treturn a+1 == c", ""},
		{"a < b && «b<c»", "b < c", ""},
		{"a", "", "3 times"},
		{"a > b", "", "0 times"},
	} {
		start, end, err := fn.find(x.pattern)
		switch {
		case x.fails != "":
			if err == nil || !strings.Contains(err.Error(), x.fails) {
				t.Errorf("%q: %v, want %q", x.pattern, err, x.fails)
			}
		case err != nil:
			t.Error(err)
		default:
			if got := string(fn.file.text[start:end]); got != x.want {
				t.Errorf("%q matches %q, want %q", x.pattern, got, x.want)
			}
		}
	}
}

// TestEditsNest shows that edits inside others are made, and that edits that overlap are refused.
func TestEditsNest(t *testing.T) {
	fn := parsed(t, example)
	for i, p := range []pattern{{kind: "cond", old: "a < b && b < c", becomes: "true"},
		{kind: "cond", old: "b < c", becomes: "b <= c"}} {
		e, err := p.edit(fn, "x", i+1)
		if err != nil || !fn.file.fits(e) {
			t.Fatal(err)
		}
		fn.file.edits = append(fn.file.edits, e)
	}
	out := string(fn.file.rewritten())
	want := "if (cqldmutant.On(1) && (true) || !cqldmutant.On(1) && (a < b && (cqldmutant.On(2) && (b <= c) || " +
		"!cqldmutant.On(2) && (b < c)))) {"
	if !strings.Contains(out, want) {
		t.Errorf("%s\nhas no %s", out, want)
	}
	p := pattern{kind: "cond", old: "< c { return a+1", becomes: "true"}
	if e, err := p.edit(fn, "x", 3); err != nil || fn.file.fits(e) {
		t.Errorf("an overlapping edit was accepted: %v", err)
	}
}

// nested is a test of the package with the switches. It expects that CQLD_MUTANT names mutant 1, x/one.
const nested = `package mutant

import (
	"os"
	"os/exec"
	"testing"
)

func expect(t *testing.T, when string, one, two bool) {
	t.Helper()
	if On(1) != one || On(2) != two {
		t.Errorf("%s: x/one is %t, x/two is %t, want %t and %t", when, On(1), On(2), one, two)
	}
	// A process that the test starts has the mutant of the environment, not one of a Need.
	if got := os.Getenv("CQLD_MUTANT"); got != "1" {
		t.Errorf("%s: CQLD_MUTANT is %q", when, got)
	}
}

func TestNested(t *testing.T) {
	expect(t, "at first", true, false)
	t.Run("outer", func(t *testing.T) {
		Need(t, "x/two")
		expect(t, "in the outer test", false, true)
		t.Run("inner", func(t *testing.T) {
			Need(t, "x/one", "x/two")
			expect(t, "in the inner test", true, true)
		})
		expect(t, "after the inner test", false, true)
	})
	expect(t, "in the end", true, false)
}

func TestUnknown(t *testing.T) {
	if os.Getenv("UNKNOWN") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=TestUnknown")
		cmd.Env = append(os.Environ(), "UNKNOWN=1")
		if cmd.Run() == nil {
			t.Error("a mutant that does not exist is accepted")
		}
		return
	}
	Need(t, "x/one", "x/none")
}
`

// TestNeedRestoresTheSwitches compiles the package with the switches of two mutants, and nests tests that need them.
func TestNeedRestoresTheSwitches(t *testing.T) {
	tier.Long(t)
	dir := t.TempDir()
	c := &catalog{mutants: []*mutant{{id: 1, key: "x/one"}, {id: 2, key: "x/two"}}}
	for name, text := range map[string]string{"go.mod": "module mutant\n\ngo 1.24\n", "mutant.go": string(c.switches()),
		"mutant_test.go": nested} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-count=1", ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), switchEnviron+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestOperatorFindsCandidates(t *testing.T) {
	var kinds []string
	for _, c := range candidates(parsed(t, example)) {
		kinds = append(kinds, c.kind)
	}
	slices.Sort(kinds)
	if got := strings.Join(kinds, " "); got != "always bound bound logic never" {
		t.Errorf("the operator finds %s", got)
	}
}

func TestHandListIsChecked(t *testing.T) {
	good := "mutant a/b\nwhat W.\nin row F\ncond x\nbecomes y\nstmt a\n  b\nbecomes\n"
	list, err := parseHandList(good)
	if err != nil || len(list) != 1 || len(list[0].patterns) != 2 || list[0].patterns[1].old != "a\n  b" ||
		list[0].patterns[1].becomes != "" {
		t.Errorf("%+v, %v", list, err)
	}
	for _, bad := range []string{"what W", "mutant x\n", "mutant a/b\ncond x\n", "mutant a/b\nwhat W.\n", good +
		"kind x\n", "mutant a/b\nin row\n"} {
		if _, err := parseHandList(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestSample builds the switches into a few packages. It runs some mutants that must be found, by scenarios and by the
// simulation, and all tests that switch mutants on themselves.
func TestSample(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the replication packages with all mutants in them")
	}
	c := testCatalog(t)
	dir := t.TempDir()
	ctx := context.Background()
	r := &runner{c: c, dir: dir, packages: []string{"row", "coordinator", "paxos", "replica", "rebalance"}, seeds: 40}
	needing := findNeeding(t, c.root)
	built := append(slices.Clone(r.packages), simPackage)
	for _, p := range needing.packages() {
		if !slices.Contains(built, p) {
			built = append(built, p)
		}
	}
	if err := c.build(ctx, dir, built); err != nil {
		t.Fatal(err)
	}
	var err error
	if r.depends, err = c.dependents(ctx, r.packages); err != nil {
		t.Fatal(err)
	}
	t.Run("found", r.testSampled)
	for _, p := range needing.packages() {
		t.Run(p, func(t *testing.T) { needing.run(ctx, t, c.root, dir, p) })
	}
}

// testSampled runs the mutants of the sample. All must be found.
func (r *runner) testSampled(t *testing.T) {
	sampled := 0
	for _, m := range r.c.mutants {
		if !m.sampled {
			continue
		}
		sampled++
		v, err := r.runMutant(t.Context(), m, verdict{})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(v)
		if !v.Found {
			t.Errorf("%s survives: %s", m.key, m.what)
		}
	}
	if sampled < 6 {
		t.Errorf("only %d mutants are in the sample", sampled)
	}
}
