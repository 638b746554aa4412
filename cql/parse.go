package cql

import (
	"sync"

	"github.com/antlr4-go/antlr/v4"

	"cqld/grammar"
)

// Parse parses a text to a statement, or returns a *SyntaxError. It is safe for concurrent use. The statement shares
// memory with the text.
func Parse(text string) (Statement, error) {
	p, _ := parsers.Get().(*parser)
	if p == nil {
		p = newParser()
	}
	defer p.put()
	return p.parse(text)
}

// parsers contains idle parsers: creating one allocates as much as a short parse. What parsers learn, the automata of
// the lexer and of the grammar's decisions, is in package grammar, and all of them share it.
var parsers sync.Pool

// parser is a lexer and a parser, for one text at a time.
type parser struct {
	stream asciiStream
	lexer  *grammar.CqlLexer
	tokens *antlr.CommonTokenStream
	parser *grammar.CqlParser
	halt   *haltStrategy
}

func newParser() *parser {
	p := &parser{halt: &haltStrategy{}}
	p.lexer = grammar.NewCqlLexer(&p.stream)
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
	p.read("")
	p.halt.failure, p.halt.reported.token = failure{}, nil
	parsers.Put(p)
}

// read sets the input of the lexer and the parser.
func (p *parser) read(text string) {
	p.lexer.SetInputStream(characters(text, &p.stream))
	p.tokens.SetTokenSource(p.lexer)
	p.parser.SetTokenStream(p.tokens)
}

func (p *parser) parse(text string) (Statement, error) {
	if len(text) > textBytesMax {
		return nil, &SyntaxError{Msg: tooLong(len(text))}
	}
	if rest, analyze, ok := explained(text); ok {
		return p.explain(rest, analyze)
	}
	return p.parsePlain(text)
}

// parsePlain parses a statement of the grammar.
func (p *parser) parsePlain(text string) (Statement, error) {
	p.read(text)
	if err := p.bounded(); err != nil {
		return nil, err
	}
	// SLL is the faster prediction mode. It is correct for every valid text with rare exceptions, so texts that it
	// rejects are parsed again with full LL, which decides and provides the error.
	tree, ok := p.tree(antlr.PredictionModeSLL)
	if !ok {
		p.tokens.Seek(0)
		p.parser.SetTokenStream(p.tokens) // discards the state of the first attempt
		if tree, ok = p.tree(antlr.PredictionModeLL); !ok {
			err := p.syntaxError(text)
			err.Msg = redactMessage(text, err.Msg)
			return nil, err
		}
	}
	b := builder{parser: p, text: text}
	statement := b.statement(tree.Statement())
	if b.err != nil {
		return nil, b.err
	}
	return statement, nil
}

// tree parses the tokens. It returns false if they are not a statement; the error strategy then has the failure.
func (p *parser) tree(mode int) (tree grammar.IRootContext, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, halted := r.(halted); !halted {
				panic(r)
			}
			ok = false
		}
	}()
	p.parser.GetInterpreter().SetPredictionMode(mode)
	return p.parser.Root(), true
}
