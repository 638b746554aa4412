package cql

import "strings"

// Explain is EXPLAIN SELECT … or EXPLAIN ANALYZE SELECT …, an extension of this server. Cassandra's grammar does not
// contain it, so Parse recognizes the words before it parses the SELECT. Select is not executed unless Analyze is
// set.
type Explain struct {
	Analyze bool // the SELECT is executed as well
	Select  *Select
}

func (*Explain) statement() {}

const (
	explainWord = "EXPLAIN"
	analyzeWord = "ANALYZE"
)

// explained reports whether text begins with EXPLAIN, and optionally ANALYZE. rest is the text with spaces in place of
// these words, so that positions in rest and text are equal. The words are not keywords: a table may be called explain.
func explained(text string) (rest string, analyze, ok bool) {
	// Comments before the word are not skipped.
	at, ok := wordAt(text, 0, explainWord)
	if !ok {
		return text, false, false
	}
	b := []byte(text)
	// Replace the words with spaces, so that errors contain positions of the original text.
	blank(b[at : at+len(explainWord)])
	if at, analyze = wordAt(text, at+len(explainWord), analyzeWord); analyze {
		blank(b[at : at+len(analyzeWord)])
	}
	return string(b), analyze, true
}

// wordAt returns the position of word, in upper or lower case, if it follows white space from a position on and
// precedes white space.
func wordAt(text string, from int, word string) (at int, ok bool) {
	const space = " \t\r\n"
	at = len(text) - len(strings.TrimLeft(text[from:], space))
	// White space and a statement must follow the word.
	end := at + len(word)
	return at, end < len(text) && strings.EqualFold(text[at:end], word) && strings.IndexByte(space, text[end]) >= 0
}

// blank replaces bytes by spaces.
func blank(b []byte) {
	for i := range b {
		b[i] = ' '
	}
}

// explain parses the text after EXPLAIN. A nested EXPLAIN is a syntax error, because rest is parsed by the grammar
// alone.
func (p *parser) explain(rest string, analyze bool) (Statement, error) {
	s, err := p.parsePlain(rest)
	if err != nil {
		return nil, err
	}
	// EXPLAIN of other statements parses, so their syntax errors come first.
	if s, ok := s.(*Select); ok {
		return &Explain{Analyze: analyze, Select: s}, nil
	}
	return nil, &SyntaxError{Msg: "EXPLAIN is allowed for SELECT statements only"}
}
