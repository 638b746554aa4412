package cql

import (
	"sync"

	"github.com/antlr4-go/antlr/v4"

	"cqld/grammar"
)

// Parse parses a text to a statement, or returns a *SyntaxError. It is safe for concurrent use. The statement shares
// memory with the text. limits.go bounds its memory and time for any text.
func Parse(text string) (Statement, error) {
	// The pool has no New function: the nil of an empty pool fails the assertion.
	p, _ := parsers.Get().(*parser)
	if p == nil {
		p = newParser()
	}
	defer p.put()
	return p.parse(text)
}

// parsers contains idle parsers: creating one allocates as much as a short parse. All parsers share the automata of
// the lexer and of the grammar's decisions, which package grammar caches.
var parsers sync.Pool

// parser is a lexer and a parser, for one text at a time.
type parser struct {
	// The characters of the text if all are ASCII. Otherwise a runeStream is allocated for the text.
	stream asciiStream
	// The three ANTLR objects are reused for each text; read resets them.
	lexer  *grammar.CqlLexer
	tokens *antlr.CommonTokenStream
	parser *grammar.CqlParser
	// halt stops the parser at the first error and records its position.
	halt *haltStrategy
}

// newParser returns a parser that reports errors to its halt strategy and prints none.
func newParser() *parser {
	p := &parser{halt: &haltStrategy{}}
	p.lexer = grammar.NewCqlLexer(&p.stream)
	// The default listeners print to the standard error output.
	p.lexer.RemoveErrorListeners()
	p.tokens = antlr.NewCommonTokenStream(p.lexer, antlr.TokenDefaultChannel)
	p.parser = grammar.NewCqlParser(p.tokens)
	p.parser.RemoveErrorListeners()
	p.parser.AddErrorListener(&p.halt.reported)
	p.parser.SetErrorHandler(p.halt)
	return p
}

// put returns the parser to the pool, without its last text and tree.
func (p *parser) put() {
	// An idle parser must not keep a text, which may be large, or its tree.
	p.read("")
	p.halt.failure, p.halt.reported.token = failure{}, nil
	parsers.Put(p)
}

// read sets the input of the lexer and the parser. It discards all state of the previous text, on which the pool
// relies.
func (p *parser) read(text string) {
	p.lexer.SetInputStream(characters(text, &p.stream))
	p.tokens.SetTokenSource(p.lexer)
	p.parser.SetTokenStream(p.tokens)
}

// parse parses a text, which may begin with EXPLAIN.
func (p *parser) parse(text string) (Statement, error) {
	// Check the size first, because everything else reads the text.
	if len(text) > textBytesMax {
		return nil, &SyntaxError{Msg: tooLong(len(text))}
	}
	if rest, analyze, ok := explained(text); ok {
		return p.explain(rest, analyze)
	}
	return p.parsePlain(text)
}

// parsePlain parses a statement of the grammar. Cheap checks come first: tokens, then the grammar, then the builder.
func (p *parser) parsePlain(text string) (Statement, error) {
	p.read(text)
	// Check the tokens before the parser runs, because its recursion and memory depend on them.
	if err := p.bounded(); err != nil {
		return nil, err
	}
	// SLL is the faster prediction mode. It is correct for every valid text with rare exceptions, so texts that it
	// rejects are parsed again with full LL, which accepts them or provides the error.
	tree, ok := p.tree(antlr.PredictionModeSLL)
	if !ok {
		p.tokens.Seek(0)
		p.parser.SetTokenStream(p.tokens) // discards the state of the first attempt
		if tree, ok = p.tree(antlr.PredictionModeLL); !ok {
			return nil, redactedError(text, p.syntaxError(text))
		}
	}
	// The builder finds further errors, which Cassandra finds with code in its grammar.
	b := builder{parser: p, text: text}
	statement := b.statement(tree.Statement())
	if b.err != nil {
		return nil, redactedError(text, b.err)
	}
	return statement, nil
}

// redactedError removes the secrets of text from err. The message contains a part of the text, or all of it, which may
// be a password, and it is logged.
func redactedError(text string, err *SyntaxError) *SyntaxError {
	shown, ok := redactMessage(text, err.Msg)
	// The position in the error remains: it shows nothing of the text.
	if err.Msg = shown; !ok {
		err.Msg = obscuredSyntax
	}
	return err
}

// tree parses the tokens. It returns false if they are not a statement; the error strategy then has the failure.
func (p *parser) tree(mode int) (tree grammar.IRootContext, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			// Any other panic is a defect and must not look like a syntax error.
			if _, halted := r.(halted); !halted {
				panic(r)
			}
			ok = false
		}
	}()
	// The mode is the interpreter's, and stays set when the parser returns to the pool.
	p.parser.GetInterpreter().SetPredictionMode(mode)
	return p.parser.Root(), true
}
