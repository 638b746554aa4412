package analysis

import (
	_ "embed" // for fold.txt
	"strconv"
	"strings"

	"github.com/kljensen/snowball"
	"golang.org/x/text/cases"
	"golang.org/x/text/language"
	"golang.org/x/text/unicode/norm"
)

// isASCII reports whether s has only ASCII characters, for which the fast functions of package strings suffice.
// They need no tables of Unicode, and no allocation if nothing changes.
func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// lower converts to lower case as Java does: with the special cases of Unicode, without special cases of languages.
// Final sigma is such a special case: ΣΑΣ becomes σας.
func lower(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	return cases.Lower(language.Und).String(s)
}

// upper converts to upper case as Java does. For example, ß becomes SS.
func upper(s string) string {
	if isASCII(s) {
		return strings.ToUpper(s)
	}
	return cases.Upper(language.Und).String(s)
}

// compose returns the normalization form C. A letter and its combining accent become one character:
// e and U+0301 become é.
func compose(s string) string { return norm.NFC.String(s) }

// foldTable has the ASCII texts that stand for other characters. Each line has the text, a tab, and ranges of code
// points. It was measured with the ASCIIFoldingFilter of Lucene 9.7, which Cassandra uses.
//
//go:embed fold.txt
var foldTable string

// newFold returns a filter that replaces characters outside ASCII. It parses the table once for each analyzer.
// Characters that the table does not have stay.
func newFold() filter {
	// The table has about 1,300 characters.
	table := make(map[rune]string, 1300)
	for line := range strings.Lines(foldTable) {
		text, ranges, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		for _, r := range strings.Fields(ranges) {
			first, last, ok := strings.Cut(r, "-")
			if !ok {
				last = first
			}
			for c := hex(first); c <= hex(last); c++ {
				table[c] = text
			}
		}
	}
	return func(s string) string {
		if isASCII(s) {
			return s
		}
		var b strings.Builder
		for _, c := range s {
			if text, ok := table[c]; ok {
				b.WriteString(text)
			} else {
				b.WriteRune(c)
			}
		}
		return b.String()
	}
}

// hex returns a code point of foldTable. It panics, because the table is part of the program.
func hex(text string) rune {
	c, err := strconv.ParseUint(text, 16, 32)
	if err != nil {
		panic("analysis: bad code point " + text)
	}
	return rune(c)
}

// stemmer returns the filter that reduces words of a language to stems, or nil if there is none. Words that are not in
// lower case are not reduced: all algorithms are for lower case. locale is a Java locale such as en or en_US; only its
// language counts.
func stemmer(locale string) filter {
	// The languages of the library. Cassandra has stemmers of more languages, whose words stay whole here.
	languages := map[string]string{"en": "english", "es": "spanish", "fr": "french", "hu": "hungarian",
		"no": "norwegian",
		"ru": "russian", "sv": "swedish"}
	name, ok := languages[strings.ToLower(strings.SplitN(locale, "_", 2)[0])]
	if !ok {
		return nil
	}
	return func(word string) string {
		if lower(word) != word {
			return word
		}
		stem, err := snowball.Stem(word, name, true)
		if err != nil || stem == "" {
			return word
		}
		return stem
	}
}
