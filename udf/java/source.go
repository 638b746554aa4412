package java

// source contains the tokens of a body and the compiler's position. The compiler resets at to parse tokens in another
// way, for example as a cast. closesType may split tokens but never removes any.
type source struct {
	tokens []token
	at     int
}

// peek returns the next token without consuming it. At the end it returns the token of the end again and again.
func (s *source) peek() token { return s.tokens[s.at] }

// ahead returns the token n places after the next one. Past the end of the body it is the token of the end.
func (s *source) ahead(n int) token { return s.tokens[min(s.at+n, len(s.tokens)-1)] }

// next consumes a token. The end is never consumed.
func (s *source) next() token {
	t := s.tokens[s.at]
	if t.kind != tokenEnd {
		s.at++
	}
	return t
}

// symbol consumes a symbol if it is next. It reports whether it has done so. Keywords are not symbols.
func (s *source) symbol(text string) bool {
	if t := s.peek(); t.kind == tokenSymbol && t.text == text {
		s.at++
		return true
	}
	return false
}

// word consumes a name or keyword if it is next. It reports whether it has done so.
func (s *source) word(text string) bool {
	if t := s.peek(); t.kind == tokenName && t.text == text {
		s.at++
		return true
	}
	return false
}

// expect consumes a symbol that must be next. The message names the expected symbol, like the Eclipse compiler.
func (s *source) expect(text string) {
	if !s.symbol(text) {
		t := s.peek()
		// There is no token to name.
		if t.kind == tokenEnd {
			invalid(t.line, "Syntax error, insert \"%s\" to complete the body", text)
		}
		invalid(t.line, "Syntax error on token \"%s\", %s expected", t.text, text)
	}
}

// name consumes a name that must be next. Keywords have the same kind. The caller checks whether it may be a keyword.
func (s *source) name() string {
	t := s.next()
	if t.kind != tokenName {
		invalid(t.line, "Syntax error on token \"%s\", a name is expected", t.text)
	}
	return t.text
}
