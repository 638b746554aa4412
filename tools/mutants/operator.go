package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

// candidate is a fault that the operator can make at one node of the syntax tree. start and end are offsets in the
// file. render gets the id when it is known, and the replaced text, in which other mutants have their switches already.
// For example, kind bound for "n > most": render returns the switch, the faulty text and the original one.
type candidate struct {
	kind       string
	what       string
	start, end int
	render     func(id int, inner string) string
}

// operator lists the candidates of a function, in the order of the source. The kinds of faults are bound (off by one),
// logic (and, or), step (without + 1), never and always (a branch), drop (a statement), error (not returned) and
// extreme (min, max). In the table, x is any operand:
//
//	bound    x < y    becomes x <= y      never   if c    is not taken
//	logic    x && y   becomes x || y      always  if c    is taken
//	step     x + 1    becomes x           drop    s()     is left out
//	extreme  min      becomes max         error   return err  returns nil
type operator struct {
	fn  function
	out []candidate
}

// candidates returns what the operator can change in a function. It parses nothing: fn has its syntax tree. Closures
// inside the function belong to it.
func candidates(fn function) []candidate {
	if uninteresting(fn.decl.Name.Name) {
		return nil
	}
	o := &operator{fn: fn}
	// The path from the body to the present node: Inspect calls with nil after the children of a node.
	var stack []ast.Node
	ast.Inspect(fn.decl.Body, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		// The body itself is its own parent, as it has no other within the function.
		var parent ast.Node = fn.decl.Body
		if len(stack) > 0 {
			parent = stack[len(stack)-1]
		}
		stack = append(stack, n)
		o.visit(n, parent)
		return true
	})
	// In the order of the source: ordinals of keys depend on it.
	return o.out
}

// uninteresting are functions whose faults lose no data: texts, statistics and the reuse of memory. The names are
// compared without case, as whole words, except for those that begin with "trace".
func uninteresting(name string) bool {
	for _, s := range []string{"String", "Error", "Unwrap", "Stats", "Status", "trace", "report", "release", "buffer",
		"stopTimer",
		"withDefaults", "verb", "whyStuck", "describe", "reasonOf", "pause", "giveBack", "progress", "clocked",
		"crowded", "failure",
		"Pending", "Held", "Totals", "newGroup", "lookLocked"} {
		if strings.EqualFold(name, s) || strings.HasPrefix(name, s) && s == "trace" {
			return true
		}
	}
	return false
}

// quiet says whether a statement only counts, logs, locks or gives memory back. Such a statement makes no test fail,
// and would waste a place of the sample. It looks at the text and not at types, so it may err on either side, which
// only changes the sample. Words are compared as parts of the text.
func quiet(text string) bool {
	for _, s := range []string{"counts.", "counters.", "trace(", "traceNode(", "report(", "Logger.", "Lock(",
		"Unlock(", "release(", "giveBack(",
		"Note(", "panic(", "tell(", "Stop()", ".Record(", "Count("} {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}

// add adds a candidate that replaces a node.
func (o *operator) add(kind, what string, n ast.Node, render func(id int, inner string) string) {
	o.addRange(kind, what, n.Pos(), n.End(), render)
}

// addRange adds a candidate that replaces the source from one position to another.
func (o *operator) addRange(kind, what string, from, to token.Pos, render func(id int, inner string) string) {
	f := o.fn.file
	// Positions become offsets, because edits are made in the text and not in the tree.
	o.out = append(o.out, candidate{kind, what, f.offset(from), f.offset(to), render})
}

// visit adds the candidates of one node. Switch statements, loops and channel operations have no operator: their faults
// mostly make a program hang, which any test finds.
func (o *operator) visit(n, parent ast.Node) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		o.binary(n)
	case *ast.IfStmt:
		o.condition(n)
	case *ast.ExprStmt:
		if inBlock(parent) {
			o.drop(n)
		}
	case *ast.AssignStmt:
		// A definition is needed by the statements after it.
		if inBlock(parent) && n.Tok != token.DEFINE {
			o.drop(n)
		}
	case *ast.IncDecStmt:
		if inBlock(parent) {
			o.drop(n)
		}
	case *ast.ReturnStmt:
		o.returned(n)
	case *ast.CallExpr:
		o.extreme(n)
	}
}

// inBlock says whether a statement with this parent can be wrapped into another. The init of an if or a for must be a
// simple statement, so nothing can be wrapped around it.
func inBlock(parent ast.Node) bool {
	switch parent.(type) {
	case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause:
		return true
	}
	return false
}

// binary shifts bounds by one, and exchanges "and" and "or". Equality has no operator: its opposite fails nearly every
// test. The faulty and the original operand have one type, so the result compiles wherever the original did.
func (o *operator) binary(n *ast.BinaryExpr) {
	// x and y are the original operands. The edits inside them are in inner only, which suffices, because one mutant is
	// on at a time.
	text := o.fn.file.textOf
	x, y := text(n.X), text(n.Y)
	other := map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}[n.Op]
	switch {
	// The faulty comparison evaluates both operands a second time.
	case other != "" && simple(n.X) && simple(n.Y):
		o.add("bound", fmt.Sprintf("`%s` becomes `%s %s %s`", oneLine(text(n)), oneLine(x), other, oneLine(y)), n,
			func(id int, inner string) string {
				return fmt.Sprintf("(%s && %s %s %s || !%s && %s)", switchCall(id), x, other, y, switchCall(id), inner)
			})
	// Operands may have effects here: only one of the two expressions is evaluated.
	case n.Op == token.LAND || n.Op == token.LOR:
		other := map[token.Token]string{token.LAND: "||", token.LOR: "&&"}[n.Op]
		o.add("logic", fmt.Sprintf("`%s` becomes `(%s) %s (%s)`", oneLine(text(n)), oneLine(x), other, oneLine(y)), n,
			func(id int, inner string) string {
				return fmt.Sprintf("(%s && ((%s) %s (%s)) || !%s && (%s))", switchCall(id), x, other, y, switchCall(id),
					inner)
			})
	// Pick evaluates both of its arguments, and infers its type from the first.
	case (n.Op == token.ADD || n.Op == token.SUB) && y == "1" && simple(n.X) && variable(n.X):
		o.add("step", fmt.Sprintf("`%s` becomes `%s`", oneLine(text(n)), oneLine(x)), n,
			func(id int, inner string) string {
				return pickCall(id, inner, x)
			})
	}
}

// variable says whether an expression has the type of a variable, and not of an untyped constant. Pick is generic: an
// untyped constant would get the type int and might not fit.
func variable(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.SelectorExpr, *ast.IndexExpr:
		return true
	case *ast.CallExpr:
		id, ok := e.Fun.(*ast.Ident)
		// A call of another function may return any type, and a conversion may be of a constant.
		return ok && id.Name == "len"
	case *ast.BinaryExpr:
		return variable(e.X)
	}
	return false
}

// simple says whether an expression can be evaluated twice. It accepts calls of len, cap and conversions, which have no
// effect.
func simple(e ast.Expr) bool {
	ok := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			id, named := n.Fun.(*ast.Ident)
			ok = ok && named && (id.Name == "len" || id.Name == "cap" || id.Name == "int" || id.Name == "int64" ||
				id.Name == "uint64")
		// A unary expression may receive from a channel.
		case *ast.FuncLit, *ast.UnaryExpr:
			ok = false
		}
		return ok
	})
	return ok
}

// condition makes a branch be taken always, or never. "never" keeps an else branch, which is then always taken.
func (o *operator) condition(n *ast.IfStmt) {
	text := oneLine(o.fn.file.textOf(n.Cond))
	if strings.Contains(text, "cap(") { // memory is used again, or not
		return
	}
	// The branch only counts or logs.
	if quiet(o.fn.file.textOf(n.Body)) && len(n.Body.List) == 1 && n.Else == nil {
		return
	}
	// The condition is evaluated in both cases, because it may have effects.
	o.add("never", fmt.Sprintf("`if %s` is never taken", text), n.Cond, func(id int, inner string) string {
		return fmt.Sprintf("((%s) && !%s)", inner, switchCall(id))
	})
	o.add("always", fmt.Sprintf("`if %s` is always taken", text), n.Cond, func(id int, inner string) string {
		return fmt.Sprintf("((%s) || %s)", inner, switchCall(id))
	})
}

// drop leaves a statement out.
func (o *operator) drop(n ast.Stmt) {
	text := o.fn.file.textOf(n)
	if quiet(text) {
		return
	}
	// The statement stays in the code, so that the variables in it count as used.
	o.add("drop", fmt.Sprintf("`%s` is left out", oneLine(text)), n, func(id int, inner string) string {
		return fmt.Sprintf("if !%s {\n%s\n}", switchCall(id), inner)
	})
}

// returned drops an error that is returned. Only the name err is recognized, which this repository uses for received
// errors. With a switch, the error is lost, and the caller continues as if nothing had happened.
func (o *operator) returned(n *ast.ReturnStmt) {
	k := len(n.Results)
	// Named results may contain an error, which is not visible here.
	if k == 0 {
		return
	}
	// Only an error that was received is dropped, not one that the statement makes.
	if id, ok := n.Results[k-1].(*ast.Ident); !ok || id.Name != "err" {
		return
	}
	results := make([]string, k)
	for i, r := range n.Results {
		// The statement stays in the code, so its results would be evaluated in two places.
		if results[i] = o.fn.file.textOf(r); !simple(r) {
			return
		}
	}
	results[k-1] = "nil"
	o.add("error", fmt.Sprintf("`%s` returns no error", oneLine(o.fn.file.textOf(n))), n,
		func(id int, inner string) string {
			return fmt.Sprintf("if %s {\nreturn %s\n}\n%s", switchCall(id), strings.Join(results, ", "), inner)
		})
}

// extreme exchanges min and max.
func (o *operator) extreme(n *ast.CallExpr) {
	id, ok := n.Fun.(*ast.Ident)
	if !ok || id.Name != "min" && id.Name != "max" || len(n.Args) != 2 || !simple(n.Args[0]) || !simple(n.Args[1]) {
		return
	}
	// With three arguments, the opposite is rarely a plausible mistake.
	other := map[string]string{"min": "max", "max": "min"}[id.Name]
	a, b := o.fn.file.textOf(n.Args[0]), o.fn.file.textOf(n.Args[1])
	o.add("extreme", fmt.Sprintf("`%s` becomes `%s`", oneLine(o.fn.file.textOf(n)), other), n,
		func(i int, inner string) string {
			return pickCall(i, inner, fmt.Sprintf("%s(%s, %s)", other, a, b))
		})
}

// oneLine is text for a table. At most 88 letters remain, with an ellipsis.
func oneLine(text string) string {
	s := strings.Join(strings.Fields(text), " ")
	// Cut at letters, not at bytes.
	if r := []rune(s); len(r) > 90 {
		s = string(r[:87]) + "…"
	}
	return s
}
