package schema

import (
	"fmt"
	"testing"
)

// BenchmarkCreateTable measures one CREATE TABLE in a schema of a thousand tables.
func BenchmarkCreateTable(b *testing.B) {
	s, err := Apply(Initial(), createKeyspace("k"))
	if err != nil {
		b.Fatal(err)
	}
	table := func(i int) *CreateTable {
		c := createTable("k", fmt.Sprint("t", i), 0)
		c.ID = UUID{byte(i), byte(i >> 8), 1}
		return c
	}
	for i := range 1000 {
		if s, err = Apply(s, table(i)); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := Apply(s, table(5000)); err != nil {
			b.Fatal(err)
		}
	}
}
