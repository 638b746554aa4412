package query

import (
	"fmt"
	"testing"
)

func TestCacheIsBounded(t *testing.T) {
	c := newPlanCache[planText, string](100 * planSize(10))
	keep, p := planText{Text: "keep"}, "0123456789"
	c.Put(keep, &p, len(p), nil)
	for i := range 10000 {
		c.Put(planText{Text: fmt.Sprint(i)}, &p, len(p), nil)
		if i%10 == 0 && c.Get(keep) == nil {
			t.Fatalf("a plan in use was dropped at %d", i)
		}
	}
	if n := len(c.Entries()); n > 100 || n < 90 {
		t.Errorf("%d plans are kept, want about 100", n)
	}
}

func TestStaleEntriesArePutAgain(t *testing.T) {
	c := newPlanCache[planText, string](1 << 20)
	k, p := planText{Text: "k"}, "plan"
	e := c.Put(k, &p, 4, []byte("a"))
	e.MarkStale()
	if again := c.Put(k, &p, 4, []byte("a")); again != e || again.Stale() || again.Changed {
		t.Error("the same columns are not the same entry")
	}
	e.MarkStale()
	again := c.Put(k, &p, 4, []byte("b"))
	if again == e || again.Stale() || !again.Changed || !again.Knows([]byte("b")) || again.Knows([]byte("a")) ||
		c.Get(k) != again {
		t.Error("other columns are not another entry")
	}
}

// TestNewEntriesStayForARevolution adds entries to a full cache whose entries are all in use: a statement that was just
// prepared must not be the next one that is evicted.
func TestNewEntriesStayForARevolution(t *testing.T) {
	c := newPlanCache[planText, string](100 * planSize(10))
	p := "0123456789"
	for i := range 100 {
		c.Put(planText{Text: fmt.Sprint("old", i)}, &p, len(p), nil)
	}
	for _, e := range c.Entries() {
		c.Get(e.Key)
	}
	for i := range 50 {
		c.Put(planText{Text: fmt.Sprint("new", i)}, &p, len(p), nil)
	}
	there := map[string]bool{}
	for _, e := range c.Entries() {
		there[e.Key.Text] = true
	}
	for i := range 50 {
		if !there[fmt.Sprint("new", i)] {
			t.Errorf("new%d was evicted by one of the next %d", i, 49-i)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	c := newPlanCache[planID, string](100 * planSize(10))
	p := "0123456789"
	for i := range 50 {
		c.Put(planID{byte(i), 1, 2, 3}, &p, len(p), nil)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if c.Get(planID{byte(i % 50), 1, 2, 3}) == nil {
			b.Fatal("not found")
		}
	}
}
