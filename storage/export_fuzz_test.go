package storage

import (
	"testing"

	"cqld/ring"
	"cqld/storage/reading"
)

// FuzzIngestionTakesNoNonsense adds blocks that another node may have sent: accepted blocks can be read.
func FuzzIngestionTakesNoNonsense(f *testing.F) {
	e := openTest(f, Options{Inline: true})
	defer e.Close()
	mustApply(f, e, putRow("key", 1, 1, "value"), putRow("key", 2, 1, "other"))
	block, _, err := e.Export(nil, testTable, ring.FullRange(), nil, nil, 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(block)
	f.Add(block[:len(block)-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		e := openTest(t, Options{Inline: true})
		defer e.Close()
		g := e.NewIngestion(testTable, ring.FullRange())
		if g.Add(b) != nil {
			g.Abort()
			return
		}
		if err := g.Commit(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := e.Export(nil, testTable, ring.FullRange(), nil, nil, 1<<20); err != nil {
			t.Fatal(err)
		}
		hashAll(t, e, reading.HashCommand{Table: testTable, Tokens: ring.Range{Start: ring.MinToken, End: 0}, Leaves: 3,
			Now: 5, BytesMax: 100})
	})
}
