package types

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseCQL parses a type in CQL's syntax, which String writes. udt finds user-defined types (not frozen) by name,
// without quotes and case-sensitively; keyspace is "" if the text names none. udt may be nil if there are no such
// types. The error is a *TypeError. The grammar of statements has a parser of its own, which this package cannot use.
func ParseCQL(text string, udt func(keyspace, name string) (*Type, bool)) (*Type, error) {
	p := cqlParser{text: text, udt: udt}
	// A part of the text may be left if the grammar ended early.
	t := p.parse(0)
	p.space()
	if p.err == nil && p.at < len(p.text) {
		p.fail("unexpected %q", p.text[p.at:])
	}
	if p.err != nil {
		return nil, p.err
	}
	return t, nil
}

// cqlParser parses one text. The first error is sticky.
type cqlParser struct {
	text string
	// The position in text.
	at int
	// nil finds no types.
	udt func(keyspace, name string) (*Type, bool)
	err error
}

// fail keeps the first error, and ends the text so that all loops end.
func (p *cqlParser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = &TypeError{Text: p.text,
			Reason: fmt.Sprintf("Cannot parse type %q: %s", p.text, fmt.Sprintf(format, args...))}
	}
	p.at = len(p.text)
}

// space skips white space.
func (p *cqlParser) space() {
	for p.at < len(p.text) && (p.text[p.at] == ' ' || p.text[p.at] == '\t' || p.text[p.at] == '\n') {
		p.at++
	}
}

// next consumes c, after optional space, if it is next.
func (p *cqlParser) next(c byte) bool {
	p.space()
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

// expect consumes c, or fails.
func (p *cqlParser) expect(c byte) {
	if !p.next(c) {
		p.fail("expected '%c' at %d", c, p.at)
	}
}

// quoted consumes text between q and q, in which a doubled q stands for one. The first q is already consumed. It
// returns the text without quotes.
func (p *cqlParser) quoted(q byte) string {
	var b strings.Builder
	for p.at < len(p.text) {
		c := p.text[p.at]
		p.at++
		if c != q {
			b.WriteByte(c)
			continue
		}
		// A quote that is not doubled ends the text.
		if p.at == len(p.text) || p.text[p.at] != q {
			return b.String()
		}
		b.WriteByte(q)
		p.at++
	}
	p.fail("missing %c", q)
	return ""
}

// name consumes an identifier. quoted means that it was in quotes and therefore names no native type. Other names are
// in lower case.
func (p *cqlParser) name() (name string, quoted bool) {
	if p.next('"') {
		return p.quoted('"'), true
	}
	start := p.at
	for p.at < len(p.text) {
		// Upper case becomes lower case; for characters that are not letters the result is not a letter.
		c := p.text[p.at] | 0x20
		if c >= 'a' && c <= 'z' || p.text[p.at] == '_' || p.at > start && c >= '0' && c <= '9' {
			p.at++
			continue
		}
		break
	}
	// An empty name: another character, or the end of the text.
	if p.at == start {
		p.fail("expected a type at %d", p.at)
	}
	return strings.ToLower(p.text[start:p.at]), false
}

// parse parses a type. After a failure it returns some type, so that callers need not check for nil.
//
//	int, "int"               the native type, and a user-defined type
//	list<int>, list          the collection, and a user-defined type
//	'Int32Type'              the class, which is int
//	ks.u, u                  user-defined types
func (p *cqlParser) parse(depth int) *Type {
	if depth > nestingMax {
		p.fail("types nested deeper than %d", nestingMax)
		return Native(Blob)
	}
	// A class name in quotes.
	if p.next('\'') {
		class := p.quoted('\'')
		t, err := ParseClass(class)
		if err != nil {
			p.fail("%v", err)
			return Native(Blob)
		}
		return t
	}
	name, quoted := p.name()
	if p.err != nil {
		return Native(Blob)
	}
	// A name in quotes is always a user-defined type, also "int".
	if !quoted {
		switch name {
		// Without <, these words may be names of user-defined types.
		case "list", "set", "map", "tuple", "vector", "frozen":
			if p.next('<') {
				return p.parts(name, depth)
			}
		default:
			if t, ok := NativeByName(name); ok {
				return t
			}
		}
	}
	return p.userType(name)
}

// parts parses the types in <>, after the opening one. word is what precedes it.
func (p *cqlParser) parts(word string, depth int) *Type {
	var elems []*Type
	dims := 0
	// Commas separate the parts; the number of parts is checked afterwards.
	for p.err == nil {
		// The second part of a vector is a number.
		if word == "vector" && len(elems) == 1 {
			dims = p.dimensions()
		} else {
			elems = append(elems, p.parse(depth+1))
		}
		if !p.next(',') {
			break
		}
	}
	p.expect('>')
	want := 1
	if word == "map" {
		want = 2
	}
	if p.err == nil && word != "tuple" && len(elems) != want {
		p.fail("%s takes %d types, not %d", word, want, len(elems))
	}
	if p.err == nil && word == "vector" && dims == 0 {
		p.fail("a vector needs its dimensions")
	}
	if p.err != nil {
		return Native(Blob)
	}
	switch word {
	// The parts are frozen by the constructors, as CQL requires.
	case "list":
		return NewList(elems[0], false)
	case "set":
		return NewSet(elems[0], false)
	case "map":
		return NewMap(elems[0], elems[1], false)
	case "tuple":
		return NewTuple(elems...)
	case "vector":
		return NewVector(elems[0], dims)
	}
	// frozen<> around a scalar is an error in CQL, too.
	if elems[0].kind < List {
		p.fail("frozen<> is only allowed on collections, tuples, and user-defined types (got %s)", elems[0])
	}
	return elems[0].Freeze()
}

// dimensions parses the number of dimensions of a vector.
func (p *cqlParser) dimensions() int {
	p.space()
	start := p.at
	for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	n, err := strconv.Atoi(p.text[start:p.at])
	if err != nil || n < 1 {
		p.fail("expected a positive number of dimensions at %d", start)
	}
	return n
}

// userType finds the user-defined type of a name, or of a name after its keyspace.
func (p *cqlParser) userType(name string) *Type {
	keyspace := ""
	if p.next('.') {
		keyspace = name
		name, _ = p.name()
	}
	// The type is not frozen; frozen<> around it freezes it.
	if p.udt != nil && p.err == nil {
		if t, ok := p.udt(keyspace, name); ok {
			return t
		}
	}
	p.fail("Unknown type %s", name)
	return Native(Blob)
}
