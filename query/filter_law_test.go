package query

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cqld/coordinator"
	"cqld/internal/model/generate"
)

var filterQueries = flag.Int("filter-queries", 4000, "how many generated queries TestReplicasFilterAsTheCoordinator "+
	"compares")

// filterMode is which conditions replicas evaluate.
type filterMode uint8

const (
	filterNone filterMode = iota // as before replicas filtered
	filterKeys                   // as several replicas do
	filterAll                    // as the only replica does
)

// filterStore evaluates filters as replicas do, and ends pages after few omitted rows.
type filterStore struct {
	modelStore
	mode     filterMode
	rows     int // after which pages end; 0: never
	filtered int // commands with a filter
}

func (s *filterStore) Read(req *coordinator.ReadRequest, done func([]byte, error)) {
	cmd := *req.Command
	switch {
	case cmd.Filter == nil:
	case s.mode == filterNone:
		cmd.Filter = nil
	case s.mode == filterKeys:
		cmd.Filter = cmd.Filter.KeyConditions()
	default:
		cmd.Filter = cmd.Filter.Clone()
		cmd.Filter.Decisive = true
	}
	if cmd.Filter != nil {
		s.filtered++
	}
	s.table(cmd.Table).FilterRows, s.table(cmd.Table).PageRows = s.rows, s.rows
	done(s.table(cmd.Table).Read(&cmd), nil)
}

// TestReplicasFilterAsTheCoordinator compares generated queries with themselves: with replicas that evaluate no filter,
// conditions on the primary key, or all conditions, and with pages that end after few omitted rows, each page of the
// client has the same rows.
func TestReplicasFilterAsTheCoordinator(t *testing.T) {
	n := *filterQueries
	if testing.Short() {
		n = min(n, 1000)
	}
	total, answered, filtered := n, 0, 0
	for seed := *pagingSeed; n > 0; seed++ {
		r := rand.New(rand.NewPCG(seed, 2))
		store := &filterStore{}
		c := &pagingCase{r: r, g: generate.New(r, "t", generate.Options{Types: seed%2 == 0, Filters: true})}
		c.p, c.s = newTestProcessor(t, store)
		c.history = c.g.Definitions()
		for _, d := range c.history {
			mustQuery(t, c.p, c.s, d)
		}
		for range 4 + r.IntN(40) {
			c.execute(c.g.Row())
		}
		for range r.IntN(8) {
			c.execute(c.g.Change())
		}
		for range queriesPerTable {
			if c.compareFilters(t, store) {
				answered++
			}
			n--
		}
		if filtered += store.filtered; t.Failed() {
			t.Fatalf("again: -paging-seed=%d -filter-queries=%d\n%s", seed, queriesPerTable,
				strings.Join(c.history, ";\n"))
		}
	}
	if t.Logf("%d of %d queries return rows; %d commands had filters", answered, total,
		filtered); answered < total/5 || filtered < total {
		t.Error("few queries return rows, or few commands have filters")
	}
}

// compareFilters generates one query and compares its pages. It reports whether there are rows.
func (c *pagingCase) compareFilters(t *testing.T, store *filterStore) bool {
	q := c.g.Select()
	size := int32(c.r.IntN(5))
	if q.Sorted {
		size = 0
	}
	var want []string
	found := false
	for _, mode := range []filterMode{filterNone, filterKeys, filterAll} {
		store.mode, store.rows = mode, c.r.IntN(4)
		got, _, err := c.rows(q.Statement, size)
		if err != nil {
			got = []string{err.Error()}
		}
		if mode == filterNone {
			want, found = got, err == nil && len(got) > 0
		} else if !slices.Equal(got, want) {
			t.Errorf("%s, filters %d, pages of %d that end after %d omitted rows\n got %q\nwant %q", q.Literal(), mode,
				size, store.rows, got, want)
		}
	}
	return found
}
