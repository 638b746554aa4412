package cql

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"cqld/grammar"
)

// TestMarkersAreCountedInTheOrderOfTheText names every marker of the corpus after its position, and checks that name
// and index agree in the AST.
func TestMarkersAreCountedInTheOrderOfTheText(t *testing.T) {
	total := 0
	for _, text := range corpus(t) {
		if _, err := Parse(text); err != nil {
			continue
		}
		renamed, count := renameMarkers(text)
		s, err := Parse(renamed)
		if err != nil {
			t.Fatalf("%s: %v", renamed, err)
		}
		seen := make([]bool, count)
		markersIn(reflect.ValueOf(s), func(m *BindMarker) {
			if want := fmt.Sprintf("m%d", m.Index); m.Name != want {
				t.Errorf("marker %s has index %d in %s", m.Name, m.Index, renamed)
			}
			seen[m.Index] = true
		})
		for i, ok := range seen {
			if !ok {
				t.Errorf("marker m%d is not in the AST of %s", i, renamed)
			}
		}
		total += count
	}
	if total < 50 {
		t.Fatalf("only %d markers in the corpus", total)
	}
}

// renameMarkers renames the markers of the text to m0, m1, ….
func renameMarkers(text string) (string, int) {
	p := newParser()
	p.read(text)
	p.tokens.Fill()
	chars := []rune(text)
	var out strings.Builder
	at, count := 0, 0
	tokens := p.tokens.GetAllTokens()
	for i := 0; i < len(tokens); i++ {
		first, last := tokens[i], tokens[i]
		switch first.GetTokenType() {
		case grammar.CqlLexerQMARK:
		case grammar.CqlLexerCOLON:
			before := tokens[i-1].GetTokenType()
			word := chars[tokens[i+1].GetStart()]
			afterValue := before != grammar.CqlLexerCOLON && before != grammar.CqlLexerCOMMA &&
				before != grammar.CqlLexerLPAREN &&
				before != grammar.CqlLexerK_IN && before != grammar.CqlLexerEQ && before != grammar.CqlLexerK_LIMIT &&
				before != grammar.CqlLexerK_TTL && before != grammar.CqlLexerK_JSON &&
				before != grammar.CqlLexerK_TIMESTAMP
			if afterValue || word >= '0' && word <= '9' {
				continue
			}
			i++
			last = tokens[i]
		default:
			continue
		}
		out.WriteString(string(chars[at:first.GetStart()]))
		fmt.Fprintf(&out, ":m%d ", count)
		at = last.GetStop() + 1
		count++
	}
	out.WriteString(string(chars[at:]))
	return out.String(), count
}

func markersIn(v reflect.Value, found func(*BindMarker)) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return
		}
		if m, ok := v.Interface().(*BindMarker); ok {
			found(m)
			return
		}
		markersIn(v.Elem(), found)
	case reflect.Struct:
		for i := range v.NumField() {
			markersIn(v.Field(i), found)
		}
	case reflect.Slice:
		for i := range v.Len() {
			markersIn(v.Index(i), found)
		}
	default:
	}
}
