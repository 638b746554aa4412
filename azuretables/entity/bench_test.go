package entity_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
	"cqld/coordinator"
	"cqld/listing"
	"cqld/paxos"
	"cqld/request"
	"cqld/row"
	"cqld/schema"
)

// hollow is a coordinator that does nothing, so that benchmarks measure only this package.
type hollow struct {
	page  []byte
	stamp int64
	keys  [][]byte
}

func (h *hollow) CAS(req *paxos.CASRequest, done func(bool, []byte, error)) {
	h.stamp++
	_, applies, err := req.Update(h.page, h.stamp)
	done(applies, h.page, err)
}

func (h *hollow) Read(_ *coordinator.ReadRequest, done func([]byte, error))   { done(h.page, nil) }
func (h *hollow) Write(_ *coordinator.WriteRequest, done func(error))         { done(nil) }
func (h *hollow) Truncate(_ *schema.Table, _ time.Duration, done func(error)) { done(nil) }
func (h *hollow) List(_ *listing.Request, done func(*listing.Result, error)) {
	done(&listing.Result{Keys: h.keys}, nil)
}

// newHollow returns a store with a hollow coordinator whose page has rows of one partition.
func newHollow(t testing.TB, rows int) (*entity.Store, *hollow) {
	r := newTestRing(t, 1)
	r.create("Things")
	for i := 0; i < rows; i += 100 {
		var ops []entity.Operation
		for k := i; k < min(i+100, rows); k++ {
			ops = append(ops, tenProperties(fmt.Sprintf("row%06d", k)))
		}
		r.apply("things", ops...)
	}
	r.apply("things", tenProperties("other"))
	table := r.nodes[0].Schema().Table(account, "things")
	cmd := &row.ReadCommand{Table: table.StorageID, Key: row.NewPartitionKey([]byte("partition")),
		Slices: []row.Slice{{End: table.Clustering[0].Type.AppendOrdered(nil, []byte("other"), false)}},
		Now:    r.clock.Now().Unix()}
	if rows > 0 {
		cmd.Slices = []row.Slice{{Start: table.Clustering[0].Type.AppendOrdered(nil, []byte("row"), false)}}
	}
	page, err := r.nodes[0].engine.Read(nil, cmd)
	if err != nil {
		t.Fatal(err)
	}
	h := &hollow{page: page, stamp: 2_000_000_000_000_000}
	return entity.New(entity.Options{Executor: request.New(request.Options{Coordinator: h, Lister: h, Proposer: h,
		Clock: r.clock}), View: r.nodes[0], Changer: r, Clock: r.clock, Rand: testRand{}}), h
}

func tenProperties(rowKey string) entity.Operation {
	o := op(entity.InsertOrReplace, "partition", rowKey)
	for i := range 5 {
		o.Entity.Properties = append(o.Entity.Properties, text(fmt.Sprint("Text", i), "some text of a few words"),
			number(fmt.Sprint("Number", i), int64(i)))
	}
	return o
}

func BenchmarkInsert(b *testing.B) {
	s, _ := newHollow(b, 0)
	o := tenProperties("new")
	o.Kind = entity.Insert
	ops := []entity.Operation{o}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Apply(anyone(), account, "Things", ops); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReplace(b *testing.B) {
	s, _ := newHollow(b, 1)
	ops := []entity.Operation{tenProperties("row000000")}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Apply(anyone(), account, "Things", ops); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInsertHundred(b *testing.B) { benchmarkHundred(b, "") }

// BenchmarkInsertHundredLarge inserts entities of 1 KB.
func BenchmarkInsertHundredLarge(b *testing.B) { benchmarkHundred(b, strings.Repeat("x", 600)) }

// hundredInserts inserts entities of eleven properties; more is the value of the eleventh.
func hundredInserts(more string) (ops []entity.Operation) {
	for i := range 100 {
		o := tenProperties(fmt.Sprintf("row%06d", i))
		o.Kind = entity.Insert
		o.Entity.Properties = append(o.Entity.Properties, text("More", more))
		ops = append(ops, o)
	}
	return ops
}

func benchmarkHundred(b *testing.B, more string) {
	s, _ := newHollow(b, 0)
	ops := hundredInserts(more)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Apply(anyone(), account, "Things", ops); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	s, _ := newHollow(b, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Get(anyone(), account, "Things", "partition", "row000000", nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPage(b *testing.B) {
	s, _ := newHollow(b, 999)
	q := &entity.Query{Filter: key("PartitionKey", odata.Eq, "partition")}
	b.ReportAllocs()
	for b.Loop() {
		page, err := s.Query(anyone(), account, "Things", q)
		if err != nil || len(page.Entities) < 999 {
			b.Fatal(err, len(page.Entities))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/entity")
}

func key(name string, op odata.Op, value string) odata.Expr {
	return &odata.Comparison{Property: name, Op: op, Value: odata.Value{Type: odata.String, Bytes: []byte(value)}}
}

// BenchmarkReal runs on one node with its storage in memory.
func BenchmarkReal(b *testing.B) {
	b.Run("insert", func(b *testing.B) {
		r := newTestRing(b, 1)
		r.create("Things")
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			r.apply("Things", tenProperties(fmt.Sprintf("row%09d", i)))
		}
	})
	query := func(name string, filter odata.Expr, load func(i int) entity.Operation) {
		b.Run(name, func(b *testing.B) {
			r := newTestRing(b, 1)
			r.create("Things")
			for i := range 2000 {
				r.apply("Things", load(i))
			}
			b.ReportAllocs()
			for b.Loop() {
				page, err := r.nodes[0].store.Query(anyone(), account, "Things", &entity.Query{Filter: filter})
				if err != nil || len(page.Entities) != 1000 {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/entity")
		})
	}
	query("page of a partition", key("PartitionKey", odata.Eq, "partition"),
		func(i int) entity.Operation { return tenProperties(fmt.Sprintf("row%06d", i)) })
	query("page of partitions", nil, func(i int) entity.Operation {
		o := tenProperties("row")
		o.Entity.PartitionKey = fmt.Sprintf("partition%06d", i)
		return o
	})
}
