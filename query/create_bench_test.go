package query

import (
	"fmt"
	"testing"

	"cqld/ring"
)

// BenchmarkDefinitions creates and drops a table, from the text of the statement to the changed schema.
func BenchmarkDefinitions(b *testing.B) {
	p, s := newTestProcessor(b, &modelStore{})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		create := fmt.Sprintf("CREATE TABLE t%d (k uuid, c timestamp, a int, b text, m map<text, int>, PRIMARY KEY "+
			"(k, c))", i)
		for _, text := range []string{create, fmt.Sprintf("DROP TABLE t%d", i)} {
			if _, err := p.Query(at(ring.One), s, text, &Params{}); err != nil {
				b.Fatal(err)
			}
		}
	}
}
