package lint

import (
	"go/ast"
	"sort"
	"testing"
)

// The comments that a maintainer needs: shapes, units, ownership and sources at declarations, reasons inside functions.
const (
	commentShareMin     = 20.0 // percent of all lines that are not blank; it only grows
	coreShareMin        = 20.0 // of the packages in explained
	functionCommentsMin = 1.0  // inside a function, on average
)

// explained returns the packages whose comments have been written: a change to one of them must keep its shares. The
// others are added when they get there.
func explained() []string {
	return []string{"cluster", "cluster/metadata", "coordinator", "coordinator/write", "paxos", "paxos/acceptor",
		"paxos/contention", "query/definition", "query/fragments", "query/read", "query/write", "storage",
		"storage/purge"}
}

func TestCommentsExplain(t *testing.T) {
	packages := parsePackages(t)
	var all commented
	for _, r := range packages {
		n := r.comments()
		all.lines += n.lines
		all.comments += n.comments
	}
	if share := all.percent(); share < commentShareMin {
		t.Errorf("%.2f %% of all lines are comments, less than %.2f", share, commentShareMin)
	}
	for _, pkg := range explained() {
		r := packages[pkg]
		if r == nil {
			t.Errorf("there is no package %s", pkg)
			continue
		}
		if share := r.comments().percent(); share < coreShareMin {
			t.Errorf("%.1f %% of the lines of package %s are comments, less than %.0f", share, pkg, coreShareMin)
		}
		if n := r.commentsInFunctions(); n < functionCommentsMin {
			t.Errorf("package %s has %.2f comments inside a function, less than %.1f", pkg, n, functionCommentsMin)
		}
	}
	if testing.Verbose() {
		logShares(t, packages)
	}
}

// logShares shows every package, the least commented first.
func logShares(t *testing.T, packages map[string]*parsedPackage) {
	t.Helper()
	names := make([]string, 0, len(packages))
	for name := range packages {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool {
		return packages[names[i]].comments().percent() < packages[names[j]].comments().percent()
	})
	for _, name := range names {
		r := packages[name]
		t.Logf("%-32s %5d lines, %4.1f %% comments, %.2f inside a function", name, r.comments().lines,
			r.comments().percent(), r.commentsInFunctions())
	}
}

// comments counts the lines of a package.
func (r *parsedPackage) comments() (n commented) {
	for _, one := range r.share {
		n.lines += one.lines
		n.comments += one.comments
	}
	return n
}

// percent returns the share of comments, and 100 without any line.
func (n commented) percent() float64 {
	if n.lines == 0 {
		return 100
	}
	return 100 * float64(n.comments) / float64(n.lines)
}

// commentsInFunctions returns how many comments a function of the package has in its body, on average. Consecutive
// lines are one comment.
func (r *parsedPackage) commentsInFunctions() float64 {
	functions, comments := 0, 0
	for _, f := range r.files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			functions++
			for _, c := range f.Comments {
				if fn.Body.Pos() < c.Pos() && c.End() < fn.Body.End() {
					comments++
				}
			}
		}
	}
	return float64(comments) / float64(max(functions, 1))
}
