package index

import (
	"cqld/schema"
	"cqld/types"
	"cqld/types/analysis"
)

// analyzedTerms passes the terms of a text index through an analyzer. Each term is the ordered form of a text. For
// example, the text "The Cats" has the terms the and cats, or only cat with stop words and stemming.
type analyzedTerms struct {
	// Terms of the column without the analyzer.
	of Terms
	// The type of the indexed texts, text or ascii, with which terms are decoded and encoded.
	text     *types.Type
	analyzer *analysis.Analyzer
}

// Append implements Terms.
func (t *analyzedTerms) Append(found *Found, x *Source, now int64) {
	// The unanalyzed terms are collected separately, because the analyzer replaces each by any number of terms: none
	// for a text of stop words, several for a sentence.
	var texts Found
	t.of.Append(&texts, x, now)
	for i := range texts.Len() {
		text, _, err := t.text.ConsumeOrdered(nil, texts.Term(i), false)
		if err != nil {
			continue // the stored value is malformed, so a read of the row fails as well
		}
		for _, term := range t.analyzer.Terms(text) {
			found.Add(func(dst []byte) []byte { return t.text.AppendOrdered(dst, term, false) }, texts.Value(i))
		}
	}
}

// analyzed returns the terms of an index, with the analyzer of its options if there is one. An index whose terms are
// not single texts ignores the analyzer.
func analyzed(of Terms, x *schema.Index, column *types.Type) Terms {
	a := analysis.Of(x.Class.String(), x.Options)
	parts := x.TermTypes(column)
	if a == nil || len(parts) != 1 || parts[0].Kind() != types.Text && parts[0].Kind() != types.Ascii {
		return of
	}
	return &analyzedTerms{of: of, text: parts[0], analyzer: a}
}
