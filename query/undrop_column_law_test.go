package query

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/internal/model/generate"
)

// undropCase executes each statement on two nodes. Only the first node drops and restores columns.
type undropCase struct {
	t       *testing.T
	r       *rand.Rand
	clocks  [2]*testClock
	p       [2]*Processor
	s       [2]*Session
	history []string
}

func newUndropCase(t *testing.T, seed uint64) *undropCase {
	c := &undropCase{t: t, r: rand.New(rand.NewPCG(seed, 9))}
	for i := range c.p {
		c.clocks[i] = &testClock{now: time.Unix(1700000000, 0)}
		store := &shortPages{r: rand.New(rand.NewPCG(seed, 10)), short: seed%2 == 0, rows: int(seed % 3)}
		c.p[i], c.s[i] = newProcessorWith(t, store, func(o *Options) {
			o.Clock, o.DropGrace = c.clocks[i], func() time.Duration { return time.Hour }
		}, "CREATE TABLE t (k int, c int, a int, d int, l list<int>, f int static, e int static, PRIMARY KEY (k, c))")
	}
	return c
}

// write executes a random change. While columns are dropped, it changes others only.
func (c *undropCase) write(dropped bool) {
	column := []string{"a", "f", "d", "l", "e"}[c.r.IntN(map[bool]int{true: 2, false: 5}[dropped])]
	value := fmt.Sprint(c.r.IntN(3))
	if column == "l" {
		value = "[" + value + "]"
	}
	where := fmt.Sprintf(" WHERE k = %d", c.r.IntN(2))
	row := fmt.Sprintf("%s AND c = %d", where, c.r.IntN(4))
	own := row
	if column == "f" || column == "e" {
		own = where
	}
	// Timestamps are not in the order of the statements.
	using := fmt.Sprintf(" USING TIMESTAMP %d", 1000+c.r.IntN(200))
	ttl := ""
	if c.r.IntN(3) == 0 {
		ttl = fmt.Sprint(" AND TTL ", 1+c.r.IntN(40))
	}
	switch c.r.IntN(9) {
	case 0:
		c.both("DELETE FROM t" + using + row)
	case 1:
		c.both("DELETE FROM t" + using + where + fmt.Sprint(" AND c > ", c.r.IntN(4)))
	case 2:
		if c.r.IntN(4) == 0 {
			c.both("DELETE FROM t" + using + where)
		}
	case 3:
		c.both("DELETE " + column + " FROM t" + using + own)
	case 4:
		c.both(fmt.Sprintf("INSERT INTO t (k, c) VALUES (%d, %d)", c.r.IntN(2), c.r.IntN(4)) + using + ttl)
	case 5:
		for _, clock := range c.clocks {
			clock.now = clock.now.Add(10 * time.Second)
		}
	default:
		c.both("UPDATE t" + using + ttl + " SET " + column + " = " + value + own)
	}
}

func (c *undropCase) both(text string) {
	c.history = append(c.history, text)
	for i := range c.p {
		mustQuery(c.t, c.p[i], c.s[i], text)
	}
}

// alter changes the columns of the first node.
func (c *undropCase) alter(action string) {
	c.history = append(c.history, "ALTER TABLE t "+action)
	mustQuery(c.t, c.p[0], c.s[0], "ALTER TABLE t "+action)
}

// compare compares the answers to a query, and returns the number of rows.
func (c *undropCase) compare(text string, size int32) int {
	var answers [2][]string
	for i := range c.p {
		pages := &pagingCase{p: c.p[i], s: c.s[i]}
		rows, _, err := pages.rows(generate.Statement{Text: text}, size)
		if err != nil {
			c.t.Fatalf("%s: %v", text, err)
		}
		answers[i] = rows
	}
	if !slices.Equal(answers[0], answers[1]) {
		c.t.Fatalf("%s\nafter UNDROP  %q\nnever dropped %q\n%s", text, answers[0], answers[1],
			strings.Join(c.history, ";\n"))
	}
	return len(answers[1])
}

// TestRestoredColumnsWereNeverDropped drops and restores columns between random changes of rows, which delete rows and
// columns, overwrite, and expire. Afterwards each answer equals the one of a node on which no column was dropped: also
// for rows whose only cell belongs to a restored column.
func TestRestoredColumnsWereNeverDropped(t *testing.T) {
	cases, rows := 150, 0
	if testing.Short() {
		cases = 30
	}
	for seed := range uint64(cases) {
		c := newUndropCase(t, seed)
		for range 2 {
			for range 5 + c.r.IntN(25) {
				c.write(false)
			}
			c.alter("DROP (d, l, e)")
			for range c.r.IntN(20) {
				c.write(true)
			}
			// In one statement, or in several.
			if c.r.IntN(2) == 0 {
				c.alter("UNDROP (d, l, e)")
			} else {
				c.alter("UNDROP e")
				c.alter("UNDROP (l, d)")
			}
			for _, text := range []string{
				"SELECT * FROM t", "SELECT DISTINCT k, e, f FROM t", "SELECT * FROM t PER PARTITION LIMIT 1",
				"SELECT k, c, writetime(d), ttl(d), writetime(a), l FROM t",
				"SELECT k, c FROM t WHERE d = 1 ALLOW FILTERING", "SELECT count(*), count(d), count(e) FROM t",
			} {
				rows += c.compare(text, int32(c.r.IntN(4)))
			}
		}
	}
	if t.Logf("%d rows", rows); rows < 20*cases {
		t.Error("too few rows are compared")
	}
}
