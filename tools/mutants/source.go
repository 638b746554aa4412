package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// file is one parsed source file of the module, without test files. edits are collected by the catalog, in any order,
// and applied once by rewritten.
type file struct {
	path  string // from the module's root, with slashes
	text  []byte
	fset  *token.FileSet
	tree  *ast.File
	edits []*edit
}

// function is a top-level function or method. Its name is "Func" or "Type.Method".
type function struct {
	file *file
	name string
	decl *ast.FuncDecl
}

// edit replaces a range of a file. render receives the replaced text, in which the edits inside the range have been
// made, and returns what takes its place. Only one mutant is on at a time, so the faulty branch needs none of the edits
// inside. start and end are offsets of bytes in file.text. For example, the edit of "n > most" with its inner text:
// (cqldmutant.On(3) && n >= most || !cqldmutant.On(3) && n > most).
type edit struct {
	key        string // of the mutant
	start, end int
	render     func(inner string) string
}

// parsePackage parses the source files of a directory. Build constraints are ignored: files of all systems are parsed.
func parsePackage(root, dir string) ([]*file, error) {
	names, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var files []*file
	for _, name := range names {
		// Faults in tests are not of interest.
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		// With a slash on all systems, because the path is a part of keys.
		f := &file{path: dir + "/" + filepath.Base(name), text: text, fset: token.NewFileSet()}
		if f.tree, err = parser.ParseFile(f.fset, name, text, parser.ParseComments); err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("mutants: package %s has no files", dir)
	}
	return files, nil
}

// functions returns the functions with a body, in the order of the source. Methods of all types are among them.
func (f *file) functions() (out []function) {
	for _, d := range f.tree.Decls {
		// Functions in assembly have no body.
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			out = append(out, function{f, functionName(fn), fn})
		}
	}
	return out
}

// functionName returns the name as in function. Pointers and type parameters of the receiver are left out. For example
// Queue.Send for func (q *Queue) Send.
func functionName(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return fn.Name.Name
	}
	t := fn.Recv.List[0].Type
	// func (q *Queue) Send
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	// func (q Queue[T]) Send
	if index, ok := t.(*ast.IndexExpr); ok {
		t = index.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "." + fn.Name.Name
	}
	return fn.Name.Name
}

// offset returns the index of a position in text.
func (f *file) offset(p token.Pos) int { return f.fset.Position(p).Offset }

// textOf returns the source of a node, without the edits.
func (f *file) textOf(n ast.Node) string { return string(f.text[f.offset(n.Pos()):f.offset(n.End())]) }

// lexeme is a token without its white space. Offsets are from the beginning of the text that was scanned.
type lexeme struct {
	token      token.Token
	text       string
	start, end int
}

// lexemes scans text. Comments are left out, and so are semicolons, most of which the scanner makes of ends of lines.
func lexemes(text []byte) (out []lexeme) {
	fset := token.NewFileSet()
	var s scanner.Scanner
	s.Init(fset.AddFile("", fset.Base(), len(text)), text, nil, 0)
	for {
		pos, tok, literal := s.Scan()
		start := fset.Position(pos).Offset
		switch {
		case tok == token.EOF:
			return out
		// Patterns may end lines at other places than the code.
		case tok == token.SEMICOLON:
		// Operators have no literal; their length is the length of the token.
		case literal != "":
			out = append(out, lexeme{tok, literal, start, start + len(literal)})
		default:
			out = append(out, lexeme{tok, "", start, start + len(tok.String())})
		}
	}
}

// find returns the range of the function that consists of the same tokens as pattern, or as the part of it between «
// and ». The pattern must occur exactly once. An example with marks: "if «n > most» {" replaces the condition alone, in
// a place that the tokens around it identify.
func (fn function) find(pattern string) (start, end int, err error) {
	from, to := fn.file.offset(fn.decl.Pos()), fn.file.offset(fn.decl.End())
	// Without marks, the whole pattern is the range.
	before, marked, after := "", pattern, ""
	if a, rest, ok := strings.Cut(pattern, "«"); ok {
		if b, c, ok := strings.Cut(rest, "»"); ok {
			before, marked, after = a, b, c
		}
	}
	// White space and comments do not count: the pattern survives a change of the form.
	skipped, length := len(lexemes([]byte(before))), len(lexemes([]byte(marked)))
	text, want := lexemes(fn.file.text[from:to]), lexemes([]byte(before+marked+after))
	if len(want) == 0 {
		return 0, 0, fmt.Errorf("%s: empty pattern", fn.name)
	}
	same := func(a, b lexeme) bool { return a.token == b.token && a.text == b.text }
	found := 0
	for i := 0; i+len(want) <= len(text); i++ {
		if slices.EqualFunc(text[i:i+len(want)], want, same) {
			found++
			start, end = from+text[i+skipped].start, from+text[i+skipped+length-1].end
		}
	}
	// A pattern that fits twice might change another place after the next edit of the code.
	if found != 1 {
		return 0, 0, fmt.Errorf("%s: %s contains %q %d times, not once", fn.file.path, fn.name, pattern, found)
	}
	return start, end, nil
}

// fits says whether e can be made together with the edits the file already has: two ranges are nested or apart. Two
// edits that overlap in part could not be rendered.
func (f *file) fits(e *edit) bool {
	for _, o := range f.edits {
		apart := e.end <= o.start || o.end <= e.start
		inside := o.start <= e.start && e.end <= o.end
		outside := e.start <= o.start && o.end <= e.end
		if !apart && !inside && !outside {
			return false
		}
	}
	return true
}

// rewritten returns the file with all its edits, and with the import they need. The import is on the line of the
// package clause, so all line numbers stay and stack traces fit the original.
func (f *file) rewritten() []byte {
	slices.SortStableFunc(f.edits, func(a, b *edit) int {
		if a.start != b.start {
			return a.start - b.start
		}
		return b.end - a.end // the outer one first
	})
	// All edits are inside functions, and therefore after the package clause.
	at := f.offset(f.tree.Name.End())
	out := string(f.text[:at]) + "; import " + switchName + " " + `"` + switchImport + `"` +
		f.render(at, len(f.text), f.edits)
	return []byte(out)
}

// render returns the text from start to end with the edits, which are sorted and lie within. Edits inside an edit are
// rendered first, from the inside to the outside.
func (f *file) render(start, end int, edits []*edit) string {
	var b strings.Builder
	for len(edits) > 0 {
		outer, n := edits[0], 1
		// The edits inside of the outer one, which fits has checked to be nested.
		for n < len(edits) && edits[n].start < outer.end && edits[n].end <= outer.end {
			n++
		}
		// The text between two edits is copied as it is.
		b.Write(f.text[start:outer.start])
		b.WriteString(outer.render(f.render(outer.start, outer.end, edits[1:n])))
		start, edits = outer.end, edits[n:]
	}
	b.Write(f.text[start:end])
	return b.String()
}
