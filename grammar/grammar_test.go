package grammar

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"testing"
)

// TestGeneratedCodeIsFresh fails when a .g4 file changed and the lexer and the parser were not generated again.
// `make generate-check` compares the code itself, which needs Java.
func TestGeneratedCodeIsFresh(t *testing.T) {
	h := sha256.New()
	for _, name := range []string{"CqlLexer.g4", "CqlParser.g4"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		h.Write(text)
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != SourceSum {
		t.Fatalf("the .g4 files have sum %s, the generated code is of %s: run go generate ./grammar", sum, SourceSum)
	}
}
