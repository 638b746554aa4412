package analysis

import (
	"strings"
	"unicode"
	"unicode/utf8"

	segments "github.com/clipperhouse/uax29/v2/words"
)

// separated returns a tokenizer that divides at each separator. Empty tokens, between two separators, are omitted.
// For example, "a,,b," has the tokens a and b.
func separated(by string) func(string, func(string) bool) {
	return func(text string, yield func(string) bool) {
		for token := range strings.SplitSeq(text, by) {
			if token != "" && !yield(token) {
				return
			}
		}
	}
}

// hasLetter reports whether a segment is a word: it has a letter, a digit or a letter-like number (category Nl).
func hasLetter(segment string) bool {
	return strings.ContainsFunc(segment, func(c rune) bool {
		return unicode.IsLetter(c) || unicode.IsDigit(c) ||
			unicode.Is(unicode.Nl, c)
	})
}

// words divides a text at the word boundaries of Unicode (UAX #29). Segments without a letter or digit are omitted, and
// so are words of more than wordMax characters. Scripts that do not separate words have one word for a sequence of
// their characters.
func words(text string, yield func(string) bool) {
	from, until := 0, 0 // a sequence of segments without separation
	flush := func() bool {
		word := text[from:until]
		from = until
		return word == "" || utf8.RuneCountInString(word) > wordMax || yield(word)
	}
	for s := segments.FromString(text); s.Next(); {
		segment := s.Value()
		if unseparated(segment) && until == s.Start() && until > from {
			until = s.End()
			continue
		}
		if !flush() {
			return
		}
		from, until = s.Start(), s.End()
		if !unseparated(segment) {
			if !hasLetter(segment) {
				from = until
			}
			if !flush() {
				return
			}
		}
	}
	flush()
}

// unseparated reports whether a segment is of a script that does not separate words: Thai, Lao, Burmese or Khmer. The
// segmenter returns their characters one by one.
func unseparated(segment string) bool {
	c, _ := utf8.DecodeRuneInString(segment)
	return unicode.In(c, unicode.Thai, unicode.Lao, unicode.Myanmar, unicode.Khmer)
}
