package cql

import (
	"github.com/antlr4-go/antlr/v4"
)

// halted is what haltStrategy panics with; parser.tree recovers it.
type halted struct{}

// failure describes where a parse stopped.
type failure struct {
	// The token that does not match.
	offending antlr.Token
	// The index of the token where the parser began to look ahead. It is at most the index of offending.
	decision int
	// The only token that would match, or antlr.TokenInvalidType if there are several.
	expected int
	// The rule of the grammar that the parser was in.
	rule int
}

// haltStrategy stops the parser at the first error. Like Cassandra's parser, it never tries to recover, and does not
// predict a loop or option that the next token does not begin, so that both stop at the same token.
type haltStrategy struct {
	antlr.DefaultErrorStrategy
	failure  failure
	reported offendingToken
}

// offendingToken stores the token of an error. The runtime reports it to listeners only: the exception of a failed
// prediction does not contain it.
type offendingToken struct {
	antlr.DefaultErrorListener
	token antlr.Token
}

// SyntaxError implements antlr.ErrorListener.
func (o *offendingToken) SyntaxError(_ antlr.Recognizer, symbol any, _, _ int, _ string, _ antlr.RecognitionException) {
	o.token, _ = symbol.(antlr.Token)
}

// ReportError passes the token of an error to the listener, without a text. The default strategy builds an unused
// message in time quadratic in the number of tokens.
func (h *haltStrategy) ReportError(p antlr.Parser, e antlr.RecognitionException) {
	if failed, ok := e.(*antlr.NoViableAltException); ok {
		// Its token is not exported, so the default strategy must report it.
		h.ReportNoViableAlternative(withoutTokens{p}, failed)
		return
	}
	p.NotifyErrorListeners("", e.GetOffendingToken(), e)
}

// withoutTokens is a parser that hides its tokens from the message of the default strategy.
type withoutTokens struct{ antlr.Parser }

func (withoutTokens) GetTokenStream() antlr.TokenStream { return nil }

// RecoverInline is called if the only matching token is another one.
func (h *haltStrategy) RecoverInline(p antlr.Parser) antlr.Token {
	// Call stop first, because it resets expected.
	h.stop(p, p.GetCurrentToken())
	expected := p.GetExpectedTokens()
	// Cassandra names the expected token only if there is one.
	if intervals := expected.GetIntervals(); len(intervals) == 1 && intervals[0].Length() == 1 {
		h.failure.expected = intervals[0].Start
	}
	// Generated code can only be stopped by a panic.
	panic(halted{})
}

// Recover is called after ReportError if no alternative matches.
func (h *haltStrategy) Recover(p antlr.Parser, _ antlr.RecognitionException) {
	h.stop(p, h.reported.token)
	panic(halted{})
}

// stop records the failure. The index of the stream is where the prediction began, not where it failed.
func (h *haltStrategy) stop(p antlr.Parser, offending antlr.Token) {
	h.failure = failure{
		offending: offending,
		decision:  p.GetTokenStream().Index(),
		rule:      p.GetParserRuleContext().GetRuleIndex(),
	}
	// The parser is used again after the panic.
	p.SetError(nil)
}

// Sync does nothing: the default one would stop before loops and options, earlier than Cassandra.
func (h *haltStrategy) Sync(antlr.Parser) {}

// ReportMatch does nothing: no recovery ever begins, so none ends.
func (h *haltStrategy) ReportMatch(antlr.Parser) {}
