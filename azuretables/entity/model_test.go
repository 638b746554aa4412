package entity_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
)

// model is a table as a map, which gives the expected results.
type model struct {
	rnd      *rand.Rand
	entities map[[2]string]*odata.Entity
}

func pick[T any](rnd *rand.Rand, from ...T) T { return from[rnd.IntN(len(from))] }

func (m *model) partitionKey() string {
	return pick(m.rnd, "", "a", "a b", "aa", "ab", "b", "b\x00", "ä", "日本", "\U0001F600")
}

func (m *model) rowKey() string {
	return pick(m.rnd, "", "0", "1", "10", "11", "2", "a", "a\x00", "a\x00\x01", "aa", "b", "z", "é", "￿", "\U0001F600")
}

// value returns a random value of a random type, often an unusual one.
func (m *model) value() odata.Value {
	r := m.rnd
	v := odata.Value{Type: pick(r, odata.String, odata.Binary, odata.Boolean, odata.DateTime, odata.Double, odata.GUID,
		odata.Int32, odata.Int64)}
	switch v.Type {
	case odata.String:
		v.Bytes = []byte(pick(r, "", "x", "xy", "日本", strings.Repeat("long ", 100)))
	case odata.Binary:
		v.Bytes = [][]byte{{}, {0}, {0xFF, 0}, []byte("x")}[r.IntN(4)]
	case odata.Boolean:
		v.Int = r.Int64N(2)
	case odata.DateTime:
		v.Int = pick[int64](r, 0, 1, -1, 16220440870454448, odata.MinDateTime, odata.MaxDateTime, 10_000, -9_999,
			r.Int64N(1<<50))
	case odata.Double:
		v.Float = pick(r, 0, 1.5, -1e300, math.NaN(), math.Inf(1), math.Inf(-1), 5e-324)
	case odata.GUID:
		v.Bytes = make([]byte, 16)
		v.Bytes[r.IntN(16)] = byte(r.IntN(256))
	case odata.Int32:
		v.Int = pick[int64](r, 0, 1, 5, -1, math.MaxInt32, math.MinInt32)
	case odata.Int64:
		v.Int = pick[int64](r, 0, 1, 5, -1, math.MaxInt64, math.MinInt64)
	}
	return v
}

func (m *model) name() string {
	return pick(m.rnd, "a", "A", "b", "ttl", "ß", "Datum", "writetime", "日本語")
}

func (m *model) properties() []odata.Property {
	var out []odata.Property
	for range m.rnd.IntN(5) {
		name := m.name()
		if !slices.ContainsFunc(out, func(p odata.Property) bool { return p.Name == name }) {
			out = append(out, odata.Property{Name: name, Value: m.value()})
		}
	}
	return out
}

// operations returns random operations on different entities of one partition.
func (m *model) operations() []entity.Operation {
	var ops []entity.Operation
	pk := m.partitionKey()
	for range 1 + m.rnd.IntN(3)*m.rnd.IntN(3) {
		o := op(entity.Kind(1+m.rnd.IntN(6)), pk, m.rowKey())
		if slices.ContainsFunc(ops, func(x entity.Operation) bool { return x.Entity.RowKey == o.Entity.RowKey }) {
			continue
		}
		if o.Kind != entity.Delete {
			o.Entity.Properties = m.properties()
		}
		if o.Kind == entity.Update || o.Kind == entity.Merge || o.Kind == entity.Delete {
			o.Conditional = m.rnd.IntN(2) == 0
			if e := m.entities[[2]string{pk, o.Entity.RowKey}]; e != nil {
				o.Match = e.Timestamp - 10*int64(m.rnd.IntN(4)/3)
			}
		}
		ops = append(ops, o)
	}
	return ops
}

// expect returns the index of the first operation that must fail, and its code.
func (m *model) expect(ops []entity.Operation) (index int, code odata.Code) {
	for i, o := range ops {
		e := m.entities[[2]string{o.Entity.PartitionKey, o.Entity.RowKey}]
		switch {
		case o.Kind == entity.Insert && e != nil:
			return i, odata.EntityAlreadyExists
		case (o.Kind == entity.Update || o.Kind == entity.Merge || o.Kind == entity.Delete) && e == nil:
			return i, odata.ResourceNotFound
		case o.Conditional && e.Timestamp != o.Match:
			return i, odata.UpdateConditionNotSatisfied
		}
	}
	return -1, ""
}

func (m *model) apply(ops []entity.Operation, stamps []int64) {
	for i, o := range ops {
		key := [2]string{o.Entity.PartitionKey, o.Entity.RowKey}
		if o.Kind == entity.Delete {
			delete(m.entities, key)
			continue
		}
		e := o.Entity
		e.Timestamp = stamps[i]
		e.Properties = slices.Clone(e.Properties)
		if old := m.entities[key]; old != nil && (o.Kind == entity.Merge || o.Kind == entity.InsertOrMerge) {
			for _, p := range old.Properties {
				if e.Property(p.Name) == nil {
					e.Properties = append(e.Properties, p)
				}
			}
		}
		m.entities[key] = &e
	}
}

// filter returns a random $filter, often on the keys.
func (m *model) filter(depth int) odata.Expr {
	r := m.rnd
	if depth > 0 && r.IntN(3) > 0 {
		switch r.IntN(5) {
		case 0, 1:
			return &odata.And{Left: m.filter(depth - 1), Right: m.filter(depth - 1)}
		case 2, 3:
			return &odata.Or{Left: m.filter(depth - 1), Right: m.filter(depth - 1)}
		}
		return &odata.Not{X: m.filter(depth - 1)}
	}
	c := &odata.Comparison{Op: odata.Op(1 + r.IntN(8))}
	key := func(s string) odata.Value { return odata.Value{Type: odata.String, Bytes: []byte(s)} }
	switch r.IntN(10) {
	case 0, 1, 2:
		c.Property, c.Value = "PartitionKey", key(m.partitionKey())
	case 3, 4, 5:
		c.Property, c.Value = "RowKey", key(m.rowKey())
	case 6:
		return &odata.Constant{True: r.IntN(2) == 0}
	case 7:
		c.Property, c.Value = "Timestamp", odata.Value{Type: odata.DateTime}
		for _, e := range m.sorted(nil, entity.Ascending) {
			c.Value.Int = e.Timestamp
			break
		}
	default:
		c.Property, c.Value = m.name(), m.value()
	}
	return c
}

// sorted returns the matching entities in order.
func (m *model) sorted(filter odata.Expr, order entity.Order) []*odata.Entity {
	var out []*odata.Entity
	for _, e := range m.entities {
		if odata.Matches(filter, e) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *odata.Entity) int {
		if c := strings.Compare(a.PartitionKey, b.PartitionKey); c != 0 {
			return c
		}
		if order == entity.Descending {
			a, b = b, a
		}
		return strings.Compare(a.RowKey, b.RowKey)
	})
	return out
}

func shown(list []*odata.Entity) string {
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintf(&b, "%q @%d\n", show(e), e.Timestamp)
	}
	return b.String()
}

// pages reads a query to its end, in pages of random sizes.
func (m *model) pages(t *testing.T, s *entity.Store, table string, q entity.Query) []*odata.Entity {
	t.Helper()
	var out []*odata.Entity
	for {
		q.Top = m.rnd.IntN(5)
		page, err := s.Query(anyone(), account, table, &q)
		if err != nil {
			t.Fatal(err)
		}
		if q.Top > 0 && len(page.Entities) > q.Top || page.Count != len(page.Entities) {
			t.Fatalf("%d entities, %d counted, %d wanted", len(page.Entities), page.Count, q.Top)
		}
		for i := range page.Entities {
			out = append(out, &page.Entities[i])
		}
		if page.Next == nil {
			return out
		}
		q.From = page.Next
	}
}

func TestRandomChangesAndQueries(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes int
		cql   string
	}{
		{"one node", 1, ""},
		{"three nodes", 3, ""},
		{"clustering descends", 1, `CREATE TABLE acme.things (user text, id text, PRIMARY KEY (user, id)) WITH CLUSTERING ORDER BY (id DESC)`},
		{"typed columns", 1, `CREATE TABLE acme.things ("PartitionKey" text, "RowKey" text, a int, "A" blob, ttl text, PRIMARY KEY ("PartitionKey", "RowKey"))`},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(3) {
				runModel(t, seed, c.nodes, c.cql)
			}
		})
	}
}

func runModel(t *testing.T, seed uint64, nodes int, cql string) {
	r := newTestRing(t, nodes)
	if cql == "" {
		r.create("Things")
	} else {
		r.exec("CREATE KEYSPACE acme WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", cql)
	}
	m := &model{rnd: rand.New(rand.NewPCG(seed, 7)), entities: map[[2]string]*odata.Entity{}}
	hist := map[string]string{}
	for step := range 300 {
		s := pick(m.rnd, r.nodes...).store
		switch m.rnd.IntN(6) {
		case 0:
			q := entity.Query{Order: entity.Order(m.rnd.IntN(2))}
			if m.rnd.IntN(4) > 0 {
				q.Filter = m.filter(3)
			}
			count := 0
			for counted := q; ; {
				counted.CountOnly, counted.Top = true, m.rnd.IntN(9)
				page, err := s.Query(anyone(), account, "things", &counted)
				if err != nil || len(page.Entities) > 0 {
					t.Fatal(page, err)
				}
				if count += page.Count; page.Next == nil {
					break
				}
				counted.From = page.Next
			}
			if want := len(m.sorted(q.Filter, q.Order)); count != want {
				t.Fatalf("seed %d, step %d: %s: %d counted, want %d", seed, step, odata.AppendFilter(nil, q.Filter),
					count, want)
			}
			want, got := shown(m.sorted(q.Filter, q.Order)), shown(m.pages(t, s, "things", q))
			if want != got {
				t.Fatalf("seed %d, step %d: %s in order %d:\n%swant\n%s", seed, step,
					odata.AppendFilter(nil, q.Filter), q.Order, got, want)
			}
		case 1:
			pk, rk := m.partitionKey(), m.rowKey()
			e, err := s.Get(anyone(), account, "things", pk, rk, nil)
			want := m.entities[[2]string{pk, rk}]
			if want == nil && code(err) != odata.ResourceNotFound || want != nil &&
				(err != nil || show(e) != show(want) || e.Timestamp != want.Timestamp) {
				t.Fatalf("seed %d, step %d: %v, %v, want %v", seed, step, e, err, want)
			}
		case 2:
			if m.rnd.IntN(10) > 0 {
				continue
			}
			pk := m.partitionKey()
			if err := s.DeletePartition(anyone(), account, "things", pk); err != nil {
				t.Fatal(err)
			}
			for key := range m.entities {
				if key[0] == pk {
					delete(m.entities, key)
				}
			}
		default:
			ops := m.operations()
			index, want := m.expect(ops)
			stamps, err := s.Apply(anyone(), account, "things", ops)
			var failed *entity.Failed
			for _, o := range ops {
				hist[o.Entity.PartitionKey+"/"+o.Entity.RowKey] += fmt.Sprintf("step %d kind %d ops %d err %v "+
					"stamps %v\n", step, o.Kind, len(ops), err, stamps)
			}
			if errors.As(err, &failed) && failed.Index != index || code(err) != want {
				for _, o := range ops {
					e, err2 := s.Get(anyone(), account, "things", o.Entity.PartitionKey, o.Entity.RowKey, nil)
					t.Logf("%q/%q: %v %v\n%s", o.Entity.PartitionKey, o.Entity.RowKey, e, err2,
						hist[o.Entity.PartitionKey+"/"+o.Entity.RowKey])
				}
				t.Fatalf("seed %d, step %d: %v, want %s of %d\n%+v", seed, step, err, want, index, ops)
			}
			if err == nil {
				m.apply(ops, stamps)
			}
		}
	}
}
