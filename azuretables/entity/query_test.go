package entity_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
	"cqld/coordinator"
	"cqld/internal/memory"
	"cqld/request"
)

func and(list ...odata.Expr) odata.Expr {
	out := list[0]
	for _, x := range list[1:] {
		out = &odata.And{Left: out, Right: x}
	}
	return out
}

func (r *testRing) query(q *entity.Query) *entity.Page {
	r.t.Helper()
	page, _ := r.cost(q)
	return page
}

// cost executes a query and returns its cost.
func (r *testRing) cost(q *entity.Query) (*entity.Page, request.Cost) {
	r.t.Helper()
	req := anyone()
	page, err := r.nodes[0].store.Query(req, account, "things", q)
	if err != nil {
		r.t.Fatal(err)
	}
	return page, req.Cost
}

// load creates partitions p000, p001… with rows r000, r001… each.
func (r *testRing) load(partitions, rows int) {
	r.t.Helper()
	r.create("Things")
	for p := range partitions {
		for i := 0; i < rows; i += 100 {
			var ops []entity.Operation
			for k := i; k < min(rows, i+100); k++ {
				ops = append(ops, op(entity.Insert, fmt.Sprintf("p%03d", p), fmt.Sprintf("r%04d", k),
					number("n", int64(k)), text("t", "x")))
			}
			r.apply("things", ops...)
		}
	}
}

// TestQueriesReadLittle checks that a query reads few rows more than it returns, in few requests.
func TestQueriesReadLittle(t *testing.T) {
	r := newTestRing(t, 1)
	r.load(30, 40)
	n := r.nodes[0]
	for _, c := range []struct {
		name          string
		q             entity.Query
		count         int
		scanned       int // maximum
		reads, listed int64
		plan          entity.Plan
	}{
		{"point", entity.Query{Filter: and(key("PartitionKey", odata.Eq, "p003"), key("RowKey", odata.Eq, "r0003"))},
			1, 1, 1, 0, entity.PointQuery},
		{"rows", entity.Query{Filter: and(key("PartitionKey", odata.Eq, "p003"), key("RowKey", odata.Ge, "r0038"))}, 2,
			2, 1, 0, entity.RowRangeScan},
		{"first of a partition", entity.Query{Filter: key("PartitionKey", odata.Eq, "p003"), Top: 1}, 1, 1, 1, 0,
			entity.RowRangeScan},
		{"last of a partition", entity.Query{Filter: key("PartitionKey", odata.Eq, "p003"), Top: 1,
			Order: entity.Descending}, 1, 1, 1, 0, entity.RowRangeScan},
		{"partitions", entity.Query{Filter: and(key("PartitionKey", odata.Ge, "p003"),
			key("PartitionKey", odata.Lt, "p005"))}, 80, 80, 2, 1, entity.PartitionRangeScan},
		{"one row of each", entity.Query{Filter: and(key("PartitionKey", odata.StartsWith, "p01"),
			key("RowKey", odata.Eq, "r0001"))}, 10, 10, 10, 1, entity.PartitionRangeScan},
		{"first of all", entity.Query{Top: 1}, 1, 1, 4, 1, entity.TableScan},
		{"nothing", entity.Query{Filter: and(key("PartitionKey", odata.Gt, "b"), key("PartitionKey", odata.Lt, "a"))},
			0, 0, 0, 0, entity.PointQuery},
		{"filtered", entity.Query{Filter: and(key("PartitionKey", odata.Eq, "p003"),
			&odata.Comparison{Property: "n", Op: odata.Eq,
				Value: odata.Value{Type: odata.Int32, Int: 7}})}, 1, 40, 1, 0, entity.RowRangeScan},
		{"counted", entity.Query{CountOnly: true}, 1200, 1200, 30, 2, entity.TableScan},
	} {
		n.faults.reads.Store(0)
		n.faults.listed.Store(0)
		page, cost := r.cost(&c.q)
		if page.Count != c.count || cost.Rows > c.scanned || n.faults.reads.Load() > c.reads ||
			n.faults.listed.Load() > c.listed || page.Plan != c.plan {
			t.Errorf("%s: %d entities of %d rows by %d reads and %d lists, %s", c.name, page.Count, cost.Rows,
				n.faults.reads.Load(), n.faults.listed.Load(), page.Plan)
		}
		if (page.Next != nil) != (c.q.Top == 1) || len(page.Entities) != page.Count && !c.q.CountOnly {
			t.Errorf("%s: %d entities, next %v", c.name, len(page.Entities), page.Next)
		}
	}
}

// TestManySmallPartitionsAreOnePage checks that a thousand partitions of one row each form one page, and are not read
// sequentially.
func TestManySmallPartitionsAreOnePage(t *testing.T) {
	r := newTestRing(t, 1)
	r.load(1000, 1)
	n := r.nodes[0]
	most := 0
	var held []func()
	// Reads continue when none has begun for a while, so the number in flight does not depend on how fast they begin.
	quiet := time.AfterFunc(time.Hour, func() {
		n.faults.mu.Lock()
		released := held
		held = nil
		n.faults.mu.Unlock()
		for _, release := range released {
			release()
		}
	})
	n.faults.hold = func(release func()) {
		held = append(held, release)
		most = max(most, len(held))
		quiet.Reset(2 * time.Millisecond)
	}
	page, cost := r.cost(&entity.Query{})
	if len(page.Entities) != 1000 || page.Next != nil || cost.Rows != 1000 {
		t.Fatal(len(page.Entities), page.Next, cost.Rows)
	}
	if most < 32 || most > 64 {
		t.Errorf("%d reads in flight at most", most)
	}
	if n.faults.listed.Load() > 5 {
		t.Errorf("%d requests for keys", n.faults.listed.Load())
	}
}

// TestPagesAreCompleteDuringWrites checks that entities that exist all the time are returned exactly once,
// regardless of inserts and deletes between the pages.
func TestPagesAreCompleteDuringWrites(t *testing.T) {
	for _, c := range []struct {
		filter odata.Expr
		order  entity.Order
		cql    string
	}{
		{nil, entity.Ascending, ""},
		{key("PartitionKey", odata.Eq, "p001"), entity.Descending, ""},
		{key("PartitionKey", odata.Eq, "p001"), entity.Descending,
			"CREATE TABLE acme.things (a text, b text, PRIMARY KEY (a, b)) WITH CLUSTERING ORDER BY (b DESC)"},
		{key("PartitionKey", odata.Gt, "p000"), entity.Ascending,
			"CREATE TABLE acme.things (a text, b text, PRIMARY KEY (a, b)) WITH CLUSTERING ORDER BY (b DESC)"},
	} {
		r := newTestRing(t, 1)
		if c.cql != "" {
			r.exec(keyspace, c.cql)
		} else {
			r.create("Things")
		}
		rnd := rand.New(rand.NewPCG(3, 4))
		stays := map[string]bool{}
		for p := range 4 {
			for k := range 30 {
				pk, rk := fmt.Sprintf("p%03d", p), fmt.Sprintf("%03d", 2*k)
				o := op(entity.Insert, pk, rk)
				if k%3 == 0 {
					o.TTL = 100
				} else if e := (odata.Entity{PartitionKey: pk, RowKey: rk}); odata.Matches(c.filter, &e) {
					stays[pk+"/"+rk] = true
				}
				r.apply("things", o)
			}
		}
		got := map[string]int{}
		q := entity.Query{Filter: c.filter, Order: c.order}
		for pages := 0; ; pages++ {
			q.Top = 1 + rnd.IntN(6)
			page := r.query(&q)
			for i := range page.Entities {
				got[page.Entities[i].PartitionKey+"/"+page.Entities[i].RowKey]++
			}
			if page.Next == nil {
				break
			}
			q.From = page.Next
			switch pages {
			case 3:
				r.clock.offset.Store(int64(200 * time.Second)) // a third expires
			case 5: // new ones are inserted between
				for p := range 4 {
					for k := range 30 {
						r.apply("things", op(entity.InsertOrReplace, fmt.Sprintf("p%03d", p),
							fmt.Sprintf("%03d", 2*k+1)))
					}
				}
			}
		}
		for name, n := range got {
			if n > 1 {
				t.Errorf("%s was received %d times", name, n)
			}
		}
		for name := range stays {
			if got[name] != 1 {
				t.Errorf("%s was received %d times", name, got[name])
			}
		}
	}
}

// TestPagesAreBounded checks that each page ends at its limits and that the next one continues there.
func TestPagesAreBounded(t *testing.T) {
	r := newTestRing(t, 1, func(o *entity.Options) { o.Limits.PageEntities, o.Limits.PageBytes = 70, 3_000 })
	r.load(3, 90)
	total, pages := 0, 0
	q := entity.Query{}
	for {
		page := r.query(&q)
		total, pages = total+len(page.Entities), pages+1
		if len(page.Entities) > 20 {
			t.Errorf("%d entities in 3,000 bytes", len(page.Entities))
		}
		if page.Next == nil {
			break
		}
		q.From = page.Next
	}
	if total != 270 || pages < 13 || pages > 40 {
		t.Errorf("%d entities on %d pages", total, pages)
	}

	slow := newTestRing(t, 1, func(o *entity.Options) { o.Timeouts.Page = time.Nanosecond })
	slow.load(5, 3)
	slow.nodes[0].faults.read = func(req *coordinator.ReadRequest) error {
		if req.Timeout > time.Second {
			t.Errorf("a read of a page that is over may take %v", req.Timeout)
		}
		return nil
	}
	total, pages, q = 0, 0, entity.Query{}
	for {
		page := slow.query(&q)
		total, pages = total+len(page.Entities), pages+1
		if page.Next == nil {
			break
		}
		q.From = page.Next
	}
	if total != 15 || pages != 5 {
		t.Errorf("%d entities on %d pages", total, pages)
	}
}

// TestPagesEndAmongTombstones checks that deleted partitions count against a page's time: an empty page may end among
// them, and the next one continues there.
func TestPagesEndAmongTombstones(t *testing.T) {
	r := newTestRing(t, 1, func(o *entity.Options) { o.Timeouts.Page = time.Nanosecond })
	r.load(1, 1)
	const gone = 1200 // a replica examines a thousand at a time
	for i := range gone {
		r.exec(fmt.Sprintf(`DELETE FROM %s.things WHERE "PartitionKey" = 'd%04d' AND "RowKey" = 'r'`, account, i))
	}
	pages, empty := 0, 0
	q := entity.Query{Filter: &odata.Not{X: &odata.Comparison{Property: "RowKey", Op: odata.Eq,
		Value: odata.Value{Type: odata.String, Bytes: []byte("x")}}}}
	for {
		page := r.query(&q)
		if pages++; len(page.Entities) == 0 {
			empty++
		}
		if page.Next == nil {
			break
		}
		if q.From != nil && page.Next.PartitionKey <= q.From.PartitionKey {
			t.Fatalf("page %d goes from %v to %v", pages, q.From, page.Next)
		}
		q.From = page.Next
		if pages > gone {
			t.Fatal("no end")
		}
	}
	if pages-empty != 1 || empty < 1 {
		t.Errorf("%d pages, of them empty %d", pages, empty)
	}
}

// TestMemoryEndsPage checks that entities are returned exactly once if a request's memory ends its pages, and that a
// refused entity is not in the page.
func TestMemoryEndsPage(t *testing.T) {
	r := newTestRing(t, 1, func(o *entity.Options) { o.Limits.PageEntities = 40 })
	r.create("Things")
	// Long names make the response much larger than the pages of the replicas, which need memory as well.
	var wide []odata.Property
	for i := range 40 {
		wide = append(wide, number(fmt.Sprintf("%s%d", strings.Repeat("n", 200), i), 1))
	}
	const entities = 60
	for i := range entities {
		r.apply("things", op(entity.Insert, "p", fmt.Sprintf("r%04d", i), wide...))
	}
	for _, order := range []entity.Order{entity.Ascending, entity.Descending} {
		for _, each := range []bool{false, true} {
			got, pages := map[string]int{}, 0
			q := entity.Query{Filter: key("PartitionKey", odata.Eq, "p"), Order: order}
			if each {
				q.Each = func(e *odata.Entity) { got[e.RowKey]++ }
			}
			for ; pages == 0 || q.From != nil; pages++ {
				req, before := anyone(), len(got)
				var account memory.Account
				memory.New(memory.Options{Limits: memory.Limits{Bytes: 1 << 20, Reserve: 200_000}}).Open(&account,
					memory.Origin{}, nil)
				req.Memory = &account
				page, err := r.nodes[0].store.Query(req, "acme", "things", &q)
				account.Close()
				if err != nil {
					t.Fatal(err)
				}
				for i := range page.Entities {
					got[page.Entities[i].RowKey]++
				}
				if len(got)-before != page.Count {
					t.Errorf("%v: %d new entities on a page of %d", order, len(got)-before, page.Count)
				}
				q.From = page.Next
			}
			for name, n := range got {
				if n > 1 {
					t.Errorf("%v: %s was received %d times", order, name, n)
				}
			}
			if len(got) != entities || pages < 3 {
				t.Errorf("%v: %d entities on %d pages", order, len(got), pages)
			}
		}
	}
}

// TestErrorEndsPage checks that rows read before an error form a page, and that a query without any returns the
// error.
func TestErrorEndsPage(t *testing.T) {
	r := newTestRing(t, 1)
	r.load(20, 3)
	n := r.nodes[0]
	reads := 0
	failure := &coordinator.ReadTimeout{}
	n.faults.read = func(*coordinator.ReadRequest) error {
		if reads++; reads > 10 {
			return failure
		}
		return nil
	}
	page := r.query(&entity.Query{})
	if len(page.Entities) != 30 || page.Next == nil {
		t.Fatal(len(page.Entities), page.Next)
	}
	if _, err := n.store.Query(anyone(), account, "things", &entity.Query{From: page.Next}); !errors.Is(err,
		error(failure)) {
		t.Error(err)
	}
	n.faults.read = nil
	if page = r.query(&entity.Query{From: page.Next}); len(page.Entities) != 30 || page.Next != nil {
		t.Error(len(page.Entities), page.Next)
	}
}

func TestSelect(t *testing.T) {
	r := newTestRing(t, 1)
	r.create("Things")
	r.apply("things", op(entity.Insert, "p", "r", text("a", "x"), number("b", 1), text("c", "y")))
	for _, c := range []struct {
		selected []string
		want     string
	}{{nil, `p/r a:Edm.String="x" b:Edm.Int32=1 c:Edm.String="y"`}, {[]string{}, "p/r"},
		{[]string{"b", "none", "RowKey"}, "p/r b:Edm.Int32=1"}} {
		page := r.query(&entity.Query{Select: c.selected,
			Filter: &odata.Comparison{Property: "a", Op: odata.Eq,
				Value: odata.Value{Type: odata.String, Bytes: []byte("x")}}})
		e, err := r.nodes[0].store.Get(anyone(), account, "things", "p", "r", c.selected)
		if err != nil || len(page.Entities) != 1 || show(&page.Entities[0]) != c.want || show(e) != c.want {
			t.Errorf("%v: %v, %v, %v", c.selected, page.Entities, e, err)
		}
	}
}

// TestUnions checks that a filter finds single rows among many without scanning the others, and that keys may be any
// text.
func TestUnions(t *testing.T) {
	r := newTestRing(t, 1)
	r.load(10, 50)
	var filter odata.Expr
	for i := range 10 {
		point := and(key("PartitionKey", odata.Eq, fmt.Sprintf("p%03d", 9-i)),
			key("RowKey", odata.Eq, fmt.Sprintf("r%04d", i)))
		if filter == nil {
			filter = point
		} else {
			filter = &odata.Or{Left: filter, Right: point}
		}
	}
	page, cost := r.cost(&entity.Query{Filter: filter})
	var keys []string
	for i := range page.Entities {
		keys = append(keys, page.Entities[i].PartitionKey[3:]+page.Entities[i].RowKey[4:])
	}
	if got := strings.Join(keys, " "); got != "09 18 27 36 45 54 63 72 81 90" || cost.Rows != 10 ||
		page.Plan != entity.PointQuery {
		t.Error(got, cost.Rows, page.Plan)
	}
}
