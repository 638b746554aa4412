package cql

import "cqld/grammar"

// scanStepsMax bounds the tokens that the searches of a columnScan visit. A search begins at each sensitive name and
// may run to the end of the text, so that without a bound the time is quadratic in the number of tokens. A usual
// statement needs two or three steps for each token.
const scanStepsMax = 4 * tokensMax

// columnSecrets returns the constants that a statement about rows or tables writes to sensitive columns and fields,
// or compares them with. It follows tokens instead of the syntax tree, so that it covers all forms of terms: a
// constant up to the end of the assignment, relation or list position is a secret. After scanStepsMax steps, it
// returns every constant.
func columnSecrets(text string, all []lexeme) []span {
	// No name in the text can be sensitive.
	if !Sensitive(text) {
		return nil
	}
	c := columnScan{text: text, all: all, marked: make([]bool, len(all))}
	for i := 0; i < len(all) && c.steps <= scanStepsMax; i++ {
		switch {
		// The values of INSERT are matched with its columns by position.
		case all[i].kind == grammar.CqlLexerK_INSERT:
			i = c.insert(i)
		case c.sensitive(i):
			c.valueOf(i)
		}
	}
	return c.spans()
}

// columnScan collects the secrets of a statement.
type columnScan struct {
	text string
	all  []lexeme
	// marked reports for each token whether it is a secret constant. Searches overlap and may mark a constant more
	// than once.
	marked []bool
	// The tokens that valueOf, listOperator and constants have visited.
	steps int
}

// step counts a step, and reports whether the search may visit a token.
func (c *columnScan) step() bool {
	c.steps++
	return c.steps <= scanStepsMax
}

// spans returns the contents of the secrets, in the order of the text.
func (c *columnScan) spans() (spans []span) {
	// A search that stopped early may have missed constants, so treat all of them as secrets.
	all := c.steps > scanStepsMax
	for i, t := range c.all {
		if c.marked[i] || all && isConstant(t.kind) {
			spans = append(spans, content(c.text, t))
		}
	}
	return spans
}

// kind returns the kind of the i-th token, or 0.
func (c *columnScan) kind(i int) int {
	if i < 0 || i >= len(c.all) {
		return 0
	}
	return c.all[i].kind
}

// sensitive reports whether the i-th token names a sensitive column or field, or is a sensitive key of a map.
func (c *columnScan) sensitive(i int) bool {
	t := c.all[i]
	switch {
	case isPunctuation(t.kind), isConstant(t.kind) && !isString(t.kind):
		return false
	// A string is a key only before a colon or a closing bracket. Elsewhere it is a value, whose text does not matter.
	case isString(t.kind) && c.kind(i+1) != grammar.CqlLexerCOLON && c.kind(i+1) != grammar.CqlLexerRBRACKET:
		return false
	}
	// The text includes the quotes, which do not affect Sensitive.
	return Sensitive(c.text[t.from:t.to])
}

// insert handles INSERT from its first token, and returns the last token that it has examined. Columns and values are
// matched by position; more values than columns are not secret.
func (c *columnScan) insert(i int) int {
	for i++; i < len(c.all) && c.all[i].kind != grammar.CqlLexerLPAREN; i++ {
		// The whole document is one literal: it is a secret if it mentions a sensitive name anywhere.
		if c.all[i].kind == grammar.CqlLexerK_JSON {
			if i++; i < len(c.all) && isString(c.all[i].kind) && Sensitive(c.text[c.all[i].from:c.all[i].to]) {
				c.marked[i] = true
			}
			return i
		}
	}
	// secret is indexed by the position of the column.
	var secret []bool
	for i++; i < len(c.all) && c.all[i].kind != grammar.CqlLexerRPAREN; i++ {
		if c.all[i].kind != grammar.CqlLexerCOMMA {
			secret = append(secret, c.sensitive(i))
		}
	}
	for i++; i < len(c.all) && c.all[i].kind != grammar.CqlLexerLPAREN; i++ {
	}
	// The position among the values, and the number of open brackets.
	at, depth := 0, 0
	for ; i < len(c.all); i++ {
		t := c.all[i]
		depth += nesting(t.kind)
		switch {
		case depth == 0:
			return i
		// Commas within a collection or a call do not separate values.
		case t.kind == grammar.CqlLexerCOMMA && depth == 1:
			at++
		// This includes constants within a collection or a call.
		case at < len(secret) && secret[at] && isConstant(t.kind):
			c.marked[i] = true
		case c.sensitive(i): // a key or a field within a value
			c.valueOf(i)
		}
	}
	return i
}

// nesting returns how much a token opens (1) or closes (-1).
func nesting(kind int) int {
	switch kind {
	case grammar.CqlLexerLPAREN, grammar.CqlLexerLBRACKET, grammar.CqlLexerLBRACE, grammar.CqlLexerEXPR_LPAREN:
		return 1
	case grammar.CqlLexerRPAREN, grammar.CqlLexerRBRACKET, grammar.CqlLexerRBRACE:
		return -1
	}
	return 0
}

// valueOf adds the constants in what is assigned to, or compared with, the sensitive name at i. The name may have an
// index, and may be part of a list of columns or an argument, which are compared as a whole.
func (c *columnScan) valueOf(i int) {
	i++
	// After the last step, constants stops at once, because all searches share the steps.
	for depth := 0; i < len(c.all) && c.step(); i++ {
		kind := c.kind(i)
		// The value begins after it. A negative depth means that the name stood in parentheses that have closed.
		if depth <= 0 && isOperator(kind) || depth == 0 && kind == grammar.CqlLexerCOLON {
			break
		}
		// The name is an element of a list. The operator follows the list, if there is one.
		if kind == grammar.CqlLexerCOMMA && depth == 0 {
			if i = c.listOperator(i); i == 0 {
				return
			}
			break
		}
		depth += nesting(kind)
		closed := nesting(kind) < 0
		// An index, a field, NOT, or a type may stand between the name and its operator.
		switch {
		case depth > 0 && isConstant(kind): // an element of a set, or a key
			c.marked[i] = true
		case closed, depth > 0, kind == grammar.CqlLexerDOT, kind == grammar.CqlLexerK_NOT,
			c.kind(i-1) == grammar.CqlLexerDOT:
		case kind == grammar.CqlLexerK_DEFAULT:
			c.constants(i+1, false)
			return
		case isType(kind, c.kind(i-1)): // of a column that is defined, before DEFAULT
		// Nothing is assigned to the name or compared with it.
		default:
			return
		}
	}
	c.constants(i+1, c.kind(i) == grammar.CqlLexerK_BETWEEN)
}

// isType reports whether a token may be part of the type of a column that follows its name.
func isType(kind, before int) bool {
	return kind >= grammar.CqlLexerK_ASCII && kind <= grammar.CqlLexerK_VARINT || kind == grammar.CqlLexerK_STATIC ||
		kind == grammar.CqlLexerK_PRIMARY || before == grammar.CqlLexerK_PRIMARY
}

// listOperator returns the position of the operator after the list in which the i-th token stands, as in (a, password)
// = (…), or 0.
func (c *columnScan) listOperator(i int) int {
	// Each sensitive name in a list starts a search, so the bound limits the search of long lists.
	for depth := 0; i < len(c.all) && c.step(); i++ {
		// Up to the bracket that closes the list.
		if depth += nesting(c.all[i].kind); depth >= 0 {
			continue
		}
		// (a, password) NOT IN (…) has the operator one token later.
		if i++; c.kind(i) == grammar.CqlLexerK_NOT {
			i++
		}
		if isOperator(c.kind(i)) {
			return i
		}
		return 0
	}
	return 0
}

// constants adds the constants from i to the end of the assignment or relation. between means that the first AND
// belongs to it.
func (c *columnScan) constants(i int, between bool) {
	// In an invalid statement, the end of a value may be missing, and each search runs to the end of the text.
	for depth := 0; i < len(c.all) && c.step(); i++ {
		t := c.all[i]
		// The bracket around the relation closes.
		if depth += nesting(t.kind); depth < 0 {
			return
		}
		switch {
		case isConstant(t.kind):
			c.marked[i] = true
		// A comma within a collection or a call ends nothing.
		case depth > 0:
		case t.kind == grammar.CqlLexerK_AND && between:
			// BETWEEN low AND high: both are secrets.
			between = false
		case endsValue(t.kind):
			return
		}
	}
}

// endsValue reports whether a token ends an assignment or relation.
func endsValue(kind int) bool {
	// These words may follow a value. A missing word would only redact too much.
	switch kind {
	case grammar.CqlLexerCOMMA, grammar.CqlLexerSEMICOLON, grammar.CqlLexerK_AND, grammar.CqlLexerK_OR,
		grammar.CqlLexerK_WHERE,
		grammar.CqlLexerK_IF, grammar.CqlLexerK_USING, grammar.CqlLexerK_ORDER, grammar.CqlLexerK_GROUP,
		grammar.CqlLexerK_LIMIT,
		grammar.CqlLexerK_PER, grammar.CqlLexerK_ALLOW, grammar.CqlLexerK_APPLY, grammar.CqlLexerK_INSERT,
		grammar.CqlLexerK_UPDATE,
		grammar.CqlLexerK_DELETE, grammar.CqlLexerK_FROM:
		return true
	}
	return false
}

// isOperator reports whether a token compares or assigns.
func isOperator(kind int) bool {
	switch kind {
	case grammar.CqlLexerEQ, grammar.CqlLexerNEQ, grammar.CqlLexerLT, grammar.CqlLexerLTE, grammar.CqlLexerGT,
		grammar.CqlLexerGTE,
		grammar.CqlLexerPLUS_EQ, grammar.CqlLexerMINUS_EQ, grammar.CqlLexerK_IN, grammar.CqlLexerK_CONTAINS,
		grammar.CqlLexerK_LIKE, grammar.CqlLexerK_ILIKE,
		grammar.CqlLexerK_BETWEEN:
		return true
	}
	return false
}
