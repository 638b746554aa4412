package analysis

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Analyzer divides text into terms. It is immutable and safe for concurrent use. Two analyzers with equal options
// return equal terms.
type Analyzer struct {
	name string
	// tokenize divides a text. nil means that the whole text is one token. yield returns false to end the tokens.
	tokenize func(text string, yield func(token string) bool)
	filters  []filter
}

// filter changes a token. An empty result omits it if the Analyzer divides text. Filters are applied in order, for
// example lower, then compose, then fold.
type filter func(token string) string

// String describes the analyzer as system_views.sai_column_indexes shows it. For example
// NonTokenizingAnalyzer{caseSensitive=false, normalized=true, ascii=false}.
func (a *Analyzer) String() string { return a.name }

// Divides reports whether a text may have several terms: a condition then matches words, not the whole text. In SASI, a
// condition with several words matches values with all of them.
func (a *Analyzer) Divides() bool { return a.tokenize != nil }

// Terms returns the terms of a text in the order of their first occurrence, without duplicates. An analyzer that does
// not divide text returns one term, which is empty for an empty text. A text that is not UTF-8 is its own term. There
// are at most termsMax terms. The slices are new; text may be reused. For example, "The dogs bark, dogs" has the terms
// the, dog and bark in StandardAnalyzer with lower case and English stems.
func (a *Analyzer) Terms(text []byte) [][]byte {
	if !utf8.Valid(text) {
		return [][]byte{slices.Clone(text)}
	}
	if a.tokenize == nil {
		return [][]byte{[]byte(a.filter(string(text)))}
	}
	var terms [][]byte
	seen := map[string]bool{}
	a.tokenize(string(text), func(token string) bool {
		term := a.filter(token)
		if term != "" && !seen[term] {
			seen[term] = true
			terms = append(terms, []byte(term))
		}
		return len(terms) < termsMax
	})
	return terms
}

// Matches reports whether a value has all terms of a condition's text. A text without terms matches nothing. It is the
// filter that a read applies to rows; an index must find exactly these rows.
func (a *Analyzer) Matches(value, text []byte) bool {
	wanted := a.Terms(text)
	if len(wanted) == 0 {
		return false
	}
	has := map[string]bool{}
	for _, term := range a.Terms(value) {
		has[string(term)] = true
	}
	return !slices.ContainsFunc(wanted, func(term []byte) bool { return !has[string(term)] })
}

// Pattern returns the text of a LIKE pattern as it is compared with terms. All filters apply, also the reduction to
// stems: Dogs may become dog. The text is not divided, because a wildcard adjoins it. The caller has removed the
// percent signs.
func (a *Analyzer) Pattern(text []byte) []byte {
	if !utf8.Valid(text) {
		return text
	}
	return []byte(a.filter(string(text)))
}

// filter applies all filters.
func (a *Analyzer) filter(token string) string {
	for _, f := range a.filters {
		token = f(token)
	}
	return token
}

// truth reads an option as Java does: everything but true is false. A missing option is false.
func truth(options map[string]string, name string) bool {
	return strings.EqualFold(options[name], "true")
}
