package analysis

import (
	"bufio"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestTermsAreCassandras compares terms with the output of Cassandra 5.0.9's analyzers. A line of testdata/tokens.txt
// has the class, the options, a text and its terms, separated by tabs. Words that are not in lower case are not reduced
// to stems here.
func TestTermsAreCassandras(t *testing.T) {
	file, err := os.Open("testdata/tokens.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	different := map[string]bool{}
	lines := 0
	unquote := strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\\`, `\`)
	for s := bufio.NewScanner(file); s.Scan(); lines++ {
		cells := strings.Split(s.Text(), "\t")
		options := map[string]string{}
		for _, o := range strings.Split(cells[1], ";") {
			if name, value, ok := strings.Cut(o, "="); ok {
				options[name] = value
			}
		}
		var a *Analyzer
		if cells[0] == "SAI" {
			a = ForSAI(options)
		} else {
			options["analyzer_class"] = "org.apache.cassandra.index.sasi.analyzer." + cells[0]
			a = ForSASI(options)
		}
		text := unquote.Replace(cells[2])
		got := [][]byte{[]byte(text)}
		if a != nil {
			got = a.Terms([]byte(text))
		}
		var want [][]byte
		for _, term := range cells[3:] {
			term = unquote.Replace(term)
			if slices.ContainsFunc(want, func(w []byte) bool { return string(w) == term }) || term == "" && a != nil &&
				a.Divides() {
				continue
			}
			want = append(want, []byte(term))
		}
		if !slices.EqualFunc(got, want, slices.Equal[[]byte]) {
			different[s.Text()] = true
			t.Errorf("%s\n%q, want\n%q", s.Text(), got, want)
		}
	}
	if lines < 500 {
		t.Errorf("only %d lines", lines)
	}
}

// FuzzTerms checks that a text matches itself unless it has no terms, and the bounds of their number.
func FuzzTerms(f *testing.F) {
	analyzers := []*Analyzer{
		ForSAI(map[string]string{"case_sensitive": "false", "normalize": "true", "ascii": "true"}),
		ForSASI(map[string]string{"analyzer_class": "StandardAnalyzer", "tokenization_enable_stemming": "true",
			"tokenization_normalize_lowercase": "true", "tokenization_locale": "en"}),
		ForSASI(map[string]string{"analyzer_class": "DelimiterAnalyzer", "delimiter": " "}),
	}
	for _, seed := range []string{"", "The dogs' 3.14 été", "ไทย日本語 x", "\xff\xfe", "a\u0301\u0327 İSTANBUL ẞ",
		strings.Repeat("word ", 50)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, a := range analyzers {
			terms := a.Terms(text)
			if !a.Divides() && len(terms) != 1 || len(terms) > termsMax {
				t.Fatalf("%s: %d terms of %q", a, len(terms), text)
			}
			if a.Matches(text, text) != (len(terms) > 0) {
				t.Fatalf("%s: %q does not match itself", a, text)
			}
		}
	})
}

// The index makes an entry of each term, see termsMax.
func TestLongTextsHaveABoundedNumberOfTerms(t *testing.T) {
	var b strings.Builder
	for i := range termsMax + 10 {
		b.WriteString(strconv.Itoa(i))
		b.WriteByte(' ')
	}
	a := ForSASI(map[string]string{"analyzer_class": "StandardAnalyzer"})
	if n := len(a.Terms([]byte(b.String()))); n != termsMax {
		t.Errorf("%d terms, want %d", n, termsMax)
	}
}

// A delimiter divides texts whatever its length in UTF-8, also beside characters with some of its bytes.
func TestDelimitersAreWholeCharacters(t *testing.T) {
	for _, delimiter := range []string{",", " ", "é", "░", "\u0301", "\u00a0", "\uffff", ""} {
		by := delimiter
		if by == "" {
			by = ","
		}
		a := ForSASI(map[string]string{"analyzer_class": "DelimiterAnalyzer", "delimiter": delimiter})
		words := []string{"a", "▒", "Ã©", "日本", "x😀"}
		var got []string
		for _, term := range a.Terms([]byte(by + strings.Join(words, by+by) + by)) {
			got = append(got, string(term))
		}
		if !slices.Equal(got, words) {
			t.Errorf("%q divides into %q", delimiter, got)
		}
	}
}
