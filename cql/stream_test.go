package cql

import (
	"strings"
	"testing"

	"github.com/antlr4-go/antlr/v4"

	"cqld/grammar"
)

// TestCharactersOutsideOfASCIIAreTokensAsBefore compares the tokens of texts with those of ANTLR's own stream, which
// passes each character to the lexer unchanged.
func TestCharactersOutsideOfASCIIAreTokensAsBefore(t *testing.T) {
	for _, text := range []string{
		"SELECT '€', \"ä\", $$ß$$ FROM t -- ü\n", "/* é */ SELECT 1µs", "SELECT 1d2µs FROM t", "SELECT 1µS FROM t",
		"SELECT 1µ FROM t", "SELECT µs FROM t",
		"SELECT µ FROM t", "SELECT '1µs' FROM t", "SELECT € FROM t", "SELECT '€", "SELECT \"€", "SELECT $$€", "/*€",
		"--€", "SELECT 1 µs FROM t",
		"SELECT \u212a FROM t", "SELECT '\xff' FROM t", "INSERT INTO t (a) VALUES (-3h7µs)", "SELECT 'a''€' FROM t",
		"SELECT 1.€ FROM t", "SELECT 0x€ FROM t",
	} {
		want := tokenTexts(antlr.NewInputStream(text))
		if got := tokenTexts(characters(text, &asciiStream{})); got != want {
			t.Errorf("%q: tokens %s, want %s", text, got, want)
		}
	}
}

func tokenTexts(stream antlr.CharStream) string {
	lexer := grammar.NewCqlLexer(stream)
	lexer.RemoveErrorListeners()
	var all []string
	for {
		token := lexer.NextToken()
		if token.GetTokenType() == antlr.TokenEOF {
			return strings.Join(all, " ")
		}
		all = append(all, grammar.CqlLexerLexerStaticData.SymbolicNames[token.GetTokenType()]+":"+token.GetText())
	}
}

// TestNamesWithMicroAreRefused checks that the µ of durations is not a letter of names, although the lexer accepts it
// after a digit.
func TestNamesWithMicroAreRefused(t *testing.T) {
	for _, text := range []string{"SELECT a1µs FROM t", "SELECT 1abc2µs FROM t"} {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), "no viable alternative at character 'µ'") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestCharactersOutsideOfASCIICostAsOthers bounds the bytes that the parser allocates for each such character of a
// string.
func TestCharactersOutsideOfASCIICostAsOthers(t *testing.T) {
	const characters = 100_000
	for _, c := range []string{"€", "µ", "1µs"} {
		text := "SELECT (text)'" + strings.Repeat(c, characters) + "' FROM t"
		var p *parser
		result := testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p = newParser()
				if _, err := p.parse(text); err != nil {
					b.Fatal(err)
				}
			}
		})
		if each := result.AllocedBytesPerOp() / int64(characters*len([]rune(c))); each > 64 {
			t.Errorf("%s: %d bytes for each character", c, each)
		}
	}
}
