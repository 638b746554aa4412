package cql

import (
	"strings"
	"unicode/utf8"

	"github.com/antlr4-go/antlr/v4"
)

// Streams of characters for the lexer. ANTLR counts characters, so its positions are byte offsets for ASCII only:
//
//	ASCII text    asciiStream   no copy; tokens share memory with the text
//	other text    runeStream    a copy as runes; positions are converted where bytes are needed

// asciiStream is the character stream of an ASCII text. It returns parts of the text without copying, while
// antlr.InputStream allocates a slice of runes first. It implements antlr.CharStream.
type asciiStream struct {
	text  string
	index int
}

var _ antlr.CharStream = (*asciiStream)(nil)

// ascii reports whether a text has ASCII characters only.
func ascii(text string) bool {
	for i := 0; i < len(text); i++ {
		// Invalid UTF-8 counts as not ASCII.
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// characters returns the text as a character stream for the lexer. It uses stream if the text is ASCII.
func characters(text string, stream *asciiStream) antlr.CharStream {
	if !ascii(text) {
		return &runeStream{runes: []rune(text)}
	}
	stream.text, stream.index = text, 0
	return stream
}

// LA returns the character at an offset from the next one, which has offset 1; -1 is the previous one.
func (s *asciiStream) LA(offset int) int {
	if offset == 0 {
		return 0
	}
	// There is no offset 0: -1 is the character before the next one.
	if offset < 0 {
		offset++
	}
	i := s.index + offset - 1
	if i < 0 || i >= len(s.text) {
		return antlr.TokenEOF
	}
	return int(s.text[i])
}

// Consume moves to the next character.
func (s *asciiStream) Consume() { s.index++ }

// Index returns the position of the next character: a byte offset, since the text is ASCII.
func (s *asciiStream) Index() int { return s.index }

// Size returns the number of characters.
func (s *asciiStream) Size() int { return len(s.text) }

// Mark does nothing: the whole text is in memory, so every position stays available.
func (s *asciiStream) Mark() int { return -1 }

// Release does nothing, as Mark does.
func (s *asciiStream) Release(int) {}

// Seek sets the position of the next character, at most the end of the text.
func (s *asciiStream) Seek(index int) { s.index = min(index, len(s.text)) }

// GetSourceName returns no name: texts come from clients.
func (s *asciiStream) GetSourceName() string { return "" }

// GetText returns the characters from start to stop, inclusive.
func (s *asciiStream) GetText(start, stop int) string {
	stop = min(stop+1, len(s.text))
	// An interval outside of the text is empty.
	if start >= stop {
		return ""
	}
	return s.text[start:stop]
}

// GetTextFromTokens returns the characters from the first one of start to the last one of end.
func (s *asciiStream) GetTextFromTokens(start, end antlr.Token) string {
	if start == nil || end == nil {
		return ""
	}
	return s.GetText(start.GetStart(), end.GetStop())
}

// GetTextFromInterval returns the characters of an interval, whose both ends are inclusive.
func (s *asciiStream) GetTextFromInterval(i antlr.Interval) string { return s.GetText(i.Start, i.Stop) }

// runeStream is the character stream of a text that is not ASCII. The lexer caches its transitions for ASCII only:
// each other character would cost 2 KiB and some microseconds. No token distinguishes these characters, except the µ
// of durations, so LA returns all of them as other. It returns µs after a digit as us, which means the same;
// parser.bounded rejects names in which this happened.
type runeStream struct {
	// The whole text, including µ and the other characters that LA hides: GetText returns them unchanged.
	runes []rune
	index int
}

var _ antlr.CharStream = (*runeStream)(nil)

// other is a character that only occurs in literals, quoted names and comments.
const other = 0x7F

// LA is as in asciiStream, with other for each character that is not ASCII.
func (s *runeStream) LA(offset int) int {
	if offset == 0 {
		return 0
	}
	if offset < 0 {
		offset++
	}
	i := s.index + offset - 1
	if i < 0 || i >= len(s.runes) {
		return antlr.TokenEOF
	}
	switch r := s.runes[i]; {
	case r < utf8.RuneSelf:
		return int(r)
	// 5µs is the same duration as 5us.
	case r == micro && i > 0 && i+1 < len(s.runes) && s.runes[i-1] >= '0' && s.runes[i-1] <= '9' &&
		s.runes[i+1]|0x20 == 's':
		return 'u'
	}
	return other
}

// micro is the µ of durations.
const micro = '\u00B5'

func (s *runeStream) Consume() { s.index++ }

func (s *runeStream) Index() int { return s.index }

func (s *runeStream) Size() int { return len(s.runes) }

func (s *runeStream) Mark() int { return -1 }

func (s *runeStream) Release(int) {}

func (s *runeStream) Seek(index int) { s.index = min(index, len(s.runes)) }

func (s *runeStream) GetSourceName() string { return "" }

// GetText returns the characters from start to stop, inclusive.
func (s *runeStream) GetText(start, stop int) string {
	stop = min(stop+1, len(s.runes))
	if start >= stop {
		return ""
	}
	return string(s.runes[start:stop])
}

func (s *runeStream) GetTextFromTokens(start, end antlr.Token) string {
	if start == nil || end == nil {
		return ""
	}
	return s.GetText(start.GetStart(), end.GetStop())
}

func (s *runeStream) GetTextFromInterval(i antlr.Interval) string { return s.GetText(i.Start, i.Stop) }

// unquote returns the content of text, whose first and last byte are the quote. It replaces doubled quotes by one.
func unquote(text string, quote string) string {
	// Both quotes are there: the lexer has another token for a text without its end.
	content := text[1 : len(text)-1]
	// Most literals have no quote inside, and share memory with the text.
	if strings.Contains(content, quote) {
		content = strings.ReplaceAll(content, quote+quote, quote)
	}
	return content
}
