package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A list by hand is a sequence of mutants, each a block of lines:
//
//	mutant  quorum/one-less          area/name
//	what    QUORUM needs one answer less than a majority.
//	in      ring QuorumOf            package directory, then function or Type.Method
//	value   n/2 + 1                  the pattern: tokens that occur once in the function
//	becomes n/2
//	sim     TestSim -workloads=register
//	sample                           "go test ./tools/mutants" runs it
//
// The kind of the pattern says how the switch is built in:
//
//	cond     a condition; becomes is another one, evaluated instead
//	value    an expression without side effects; both values are computed
//	stmt     statements that declare nothing; becomes replaces them, and may be empty
//	before   statements; becomes is run before them
//	after    statements; becomes is run after them
//
// A mutant may have several patterns, each with its own "in" if that changes. Lines that begin with white space
// continue the line before; "#" begins a comment.

// pattern is one place of a mutant in the source. It is matched by tokens, so a change of white space, line breaks or
// comments in the code does not break it.
type pattern struct {
	dir, function string
	kind          string
	// Go source: what is matched, by its tokens, and what replaces it.
	old, becomes string
}

// handMutant is a mutant of the list by hand. line is the line of the word mutant, for errors.
type handMutant struct {
	key, what string
	patterns  []pattern
	sims      []string // instead of those of its area
	sampled   bool
	line      int
}

// area returns the part of the key before the slash.
func (h *handMutant) area() string { return strings.SplitN(h.key, "/", 2)[0] }

// readHandList reads tools/mutants/hand/*.txt. Files are read in the order of their names.
func readHandList(dir string) (out []*handMutant, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		list, err := parseHandList(string(b))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, list...)
	}
	return out, nil
}

// parseHandList parses one file. Fields belong to the mutant before them, patterns to the last "in". The first error
// ends the parsing and names its line.
func parseHandList(text string) (out []*handMutant, err error) {
	var in []string
	for _, field := range joinLines(text) {
		name, value, _ := strings.Cut(field.text, " ")
		if value = strings.TrimSpace(value); name != "mutant" && len(out) == 0 {
			return nil, fmt.Errorf("line %d: %q before the first mutant", field.line, name)
		}
		switch name {
		case "mutant":
			out, in = append(out, &handMutant{key: value, line: field.line}), nil
			if !strings.Contains(value, "/") {
				return nil, fmt.Errorf("line %d: mutant %q has no area", field.line, value)
			}
			continue
		}
		// The check above ensures that there is one.
		h := out[len(out)-1]
		switch name {
		case "what":
			h.what = strings.Join(strings.Fields(value), " ")
		case "in":
			if in = strings.Fields(value); len(in) != 2 {
				return nil, fmt.Errorf("line %d: want a package and a function", field.line)
			}
		case "sample":
			h.sampled = true
		// Several simulations are several lines.
		case "sim":
			h.sims = append(h.sims, value)
		case "cond", "value", "stmt", "before", "after":
			if in == nil {
				return nil, fmt.Errorf("line %d: a pattern needs an \"in\" before it", field.line)
			}
			h.patterns = append(h.patterns, pattern{dir: in[0], function: in[1], kind: name, old: value})
		case "becomes":
			if len(h.patterns) == 0 {
				return nil, fmt.Errorf("line %d: nothing is replaced", field.line)
			}
			// Without this field, becomes is empty, which makes sense for "stmt" only.
			h.patterns[len(h.patterns)-1].becomes = value
		default:
			return nil, fmt.Errorf("line %d: unknown field %q", field.line, name)
		}
	}
	// Checked at the end, because the fields of a mutant come in any order.
	for _, h := range out {
		if h.what == "" || len(h.patterns) == 0 {
			return nil, fmt.Errorf("line %d: %s needs a description and a pattern", h.line, h.key)
		}
	}
	return out, nil
}

// field is a line with those that continue it.
type field struct {
	text string
	line int
}

// joinLines returns the fields of a list with their line numbers. It drops comments and empty lines. Tabs between a
// field's name and its value are accepted.
func joinLines(text string) (out []field) {
	for i, l := range strings.Split(text, "\n") {
		switch {
		case strings.TrimSpace(l) == "" || strings.HasPrefix(l, "#"):
		case (l[0] == ' ' || l[0] == '\t') && len(out) > 0:
			// With its line break: a statement of several lines stays one.
			out[len(out)-1].text += "\n" + l
		default:
			out = append(out, field{strings.ReplaceAll(l, "\t", " "), i + 1})
		}
	}
	return out
}

// edit builds the switch of a pattern.
//
//	cond     (On(7) && (becomes) || !On(7) && (old))
//	value    Pick(7, old, becomes)
//	stmt     if On(7) { becomes } else { old }
//	before   if On(7) { becomes } old
//	after    old if On(7) { becomes }
//
// It fails if the pattern does not occur exactly once in the function.
func (p *pattern) edit(fn function, key string, id int) (*edit, error) {
	start, end, err := fn.find(p.old)
	if err != nil {
		return nil, err
	}
	on := switchCall(id)
	// The parentheses keep the precedence of the operators around the pattern.
	e := &edit{key: key, start: start, end: end}
	switch p.kind {
	case "cond":
		e.render = func(old string) string { return fmt.Sprintf("(%s && (%s) || !%s && (%s))", on, p.becomes, on, old) }
	// Pick is a function: both values are computed, see the package's list of kinds.
	case "value":
		e.render = func(old string) string { return pickCall(id, old, p.becomes) }
	case "stmt":
		e.render = func(old string) string { return fmt.Sprintf("if %s {\n%s\n} else {\n%s\n}", on, p.becomes, old) }
	// Declarations of the inserted statements stay within their block.
	case "before":
		e.render = func(old string) string { return fmt.Sprintf("if %s {\n%s\n}\n%s", on, p.becomes, old) }
	case "after":
		e.render = func(old string) string { return fmt.Sprintf("%s\nif %s {\n%s\n}", old, on, p.becomes) }
	}
	return e, nil
}
