package cql

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// TestParsersShareWhatTheyHaveLearnt compares the first parse of a text by a new parser with a parse by a parser that
// has parsed it before. The lexer and the parser compute their transitions when a text needs them first, and add them
// to automata of the grammar that all parsers share, under the runtime's locks: 36,000 allocations for these texts. A
// parser with its own automata would compute them again whenever the pool is empty.
func TestParsersShareWhatTheyHaveLearnt(t *testing.T) {
	allocations := func(p *parser) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, s := range statements {
			if _, err := p.parse(s.text); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs
	}
	used := newParser()
	first := allocations(used)
	again := allocations(used)
	fresh := allocations(newParser())
	t.Logf("%d allocations by the first parser, %d by it again, %d by another", first, again, fresh)
	// The buffers of a new parser grow.
	if fresh > again+100 {
		t.Errorf("a new parser allocates %d times for texts that others know, a used one %d times", fresh, again)
	}
}

// TestAutomataStaySmall parses statements with random words and all depths of parentheses, valid and not: the automata
// that parsers share reach a size that further statements do not change. They live as long as the process.
func TestAutomataStaySmall(t *testing.T) {
	texts := corpus(t)
	var words []string
	for _, text := range texts {
		words = append(words, strings.Fields(text)...)
	}
	r := rand.New(rand.NewPCG(23, 5))
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	draw := func(n int) {
		for i := range n {
			list := strings.Fields(texts[r.IntN(len(texts))])
			if len(list) > 500 {
				continue
			}
			for range 1 + r.IntN(4) {
				at := r.IntN(len(list) + 1)
				list = append(list[:at:at], append([]string{words[r.IntN(len(words))]}, list[at:]...)...)
			}
			_, _ = Parse(strings.Join(list, " "))
			if i >= 100 {
				continue
			}
			depth := 1 + i
			_, _ = Parse("SELECT a FROM t WHERE b = " + strings.Repeat("(", depth) + "1" +
				strings.Repeat(")", depth-i%2))
			_, _ = Parse("INSERT INTO t (a) VALUES (" + strings.Repeat("[{", depth) + strings.Repeat("}]", depth) + ")")
		}
	}
	draw(2000)
	before := heap()
	draw(2000)
	const most, growth = 16 << 20, 1 << 20
	after := heap()
	t.Logf("%d KiB after 2,000 statements, %d after 4,000", before>>10, after>>10)
	if after > most || after > before+growth {
		t.Errorf("the heap has %d KiB after 2,000 statements, and %d after 4,000", before>>10, after>>10)
	}
}
