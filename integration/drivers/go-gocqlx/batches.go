package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/gocql/gocql"
	"github.com/scylladb/gocqlx/v3"
	"github.com/scylladb/gocqlx/v3/migrate"
	"github.com/scylladb/gocqlx/v3/qb"
)

// batch returns a builder of a batch that is one statement: gocqlx deprecates it, but applications that use it must
// work.
func batch() *qb.BatchBuilder {
	return qb.Batch() //nolint:staticcheck // see above
}

// counters adds to counters, also in a batch that is one statement.
func (s *suite) counters() error {
	add := qb.Update("visits").Add("n").Where(qb.Eq("page"))
	return first(
		add.Query(s.Session).BindMap(qb.M{"n": int64(3), "page": "a"}).ExecRelease,
		batch().Counter().AddWithPrefix("x", add).AddWithPrefix("y",
			add).Query(s.Session).BindMap(qb.M{"x.n": int64(4), "x.page": "a", "y.n": int64(-1),
			"y.page": "b"}).ExecRelease,
		func() error {
			var got []int64
			err := qb.Select("visits").Columns("n").Where(qb.In("page")).Query(s.Session).
				BindMap(qb.M{"page": []string{"a", "b"}}).SelectRelease(&got)
			return errors.Join(err, same("counters", got, []int64{7, -1}))
		},
	)
}

// batches executes batches: statements in one text, with a timestamp and without the log, and prepared ones in a batch
// of the protocol.
func (s *suite) batches() error {
	t := people()
	insert, update := t.InsertBuilder(), t.UpdateBuilder("age")
	names := func(want ...string) func() error {
		return func() error {
			var got []string
			err := qb.Select("people").Columns("last").Where(qb.EqLit("first",
				"'B'")).Query(s.Session).SelectRelease(&got)
			return errors.Join(err, same("names", got, want))
		}
	}
	type both struct {
		A, B person
		T    int64
	}
	return first(
		batch().AddWithPrefix("a", insert).AddWithPrefix("b", insert).TimestampNamed("t").Query(s.Session).
			BindStruct(both{person{"B", "One", nil, 1}, person{"B", "Two", nil, 2}, 1000}).ExecRelease,
		names("One", "Two"),
		batch().UnLogged().Add(insert).AddStmtWithPrefix("d", "DELETE FROM people WHERE first = ? AND last = ?",
			[]string{"first", "last"}).Query(s.Session).
			BindStructMap(person{"B", "Three", nil, 3}, qb.M{"d.first": "B", "d.last": "One"}).ExecRelease,
		names("Three", "Two"),
		func() error {
			b := s.Batch(gocql.LoggedBatch)
			i, u := insert.Query(s.Session), update.Query(s.Session)
			defer i.Release()
			defer u.Release()
			return errors.Join(b.BindStruct(i, person{"B", "Four", nil, 4}),
				b.BindMap(u, qb.M{"age": 30, "first": "B", "last": "Three"}), s.ExecuteBatch(b))
		},
		names("Four", "Three", "Two"),
		func() error {
			var sum int
			err := qb.Select("people").Sum("age").Where(qb.EqLit("first", "'B'")).Query(s.Session).GetRelease(&sum)
			return errors.Join(err, same("sum of ages", sum, 36))
		},
	)
}

// conditions executes conditional statements, alone and in a batch.
func (s *suite) conditions() error {
	key := []qb.Cmp{qb.Eq("first"), qb.Eq("last")}
	p := person{"C", "One", nil, 1}
	insert := people().InsertBuilder().Unique()
	cas := func(what string, q *gocqlx.Queryx, want bool) func() error {
		return func() error {
			applied, err := q.ExecCASRelease()
			return errors.Join(err, same(what, applied, want))
		}
	}
	update := qb.Update("people").SetNamed("age", "new").Where(key...).If(qb.EqNamed("age", "old"))
	return first(
		cas("insert", insert.Query(s.Session).BindStruct(p), true),
		func() error { // the stored row is returned
			var found person
			applied, err := insert.Query(s.Session).BindStruct(person{"C", "One", nil, 9}).GetCASRelease(&found)
			return errors.Join(err, same("insert", applied, false), same("stored row", found, p))
		},
		cas("update", update.Query(s.Session).BindStructMap(p, qb.M{"new": 2, "old": 1}), true),
		cas("stale update", update.Query(s.Session).BindStructMap(p, qb.M{"new": 3, "old": 1}), false),
		func() error {
			b := s.Batch(gocql.LoggedBatch)
			q, i := update.Query(s.Session), insert.Query(s.Session)
			defer q.Release()
			defer i.Release()
			if err := errors.Join(b.BindStructMap(q, p, qb.M{"new": 5, "old": 2}),
				b.BindStruct(i, person{"C", "Two", nil, 2})); err != nil {
				return err
			}
			applied, iter, err := s.ExecuteBatchCAS(b)
			if err == nil {
				err = iter.Close()
			}
			return errors.Join(err, same("batch", applied, true))
		},
		cas("delete of nothing", qb.Delete("people").Where(key...).Existing().Query(s.Session).
			BindStruct(person{First: "C", Last: "Three"}), false),
		cas("delete", qb.Delete("people").Where(key...).If(qb.EqLit("age", "5")).Query(s.Session).BindStruct(p), true),
	)
}

// iterators reads pages, row by row.
func (s *suite) iterators() error {
	q := qb.Select("readings").Query(s.Session)
	defer q.Release()
	q.PageSize(7)
	iter := q.Iter()
	sum, rows := 0.0, 0
	for r := (reading{}); iter.StructScan(&r); rows++ {
		sum += r.Value
	}
	if err := iter.Close(); err != nil || rows != 40 || sum != 95 {
		return fmt.Errorf("%d rows with the sum %v: %w", rows, sum, err)
	}
	var state []byte
	pages, all := 0, []reading{}
	for ; pages == 0 || len(state) > 0; pages++ {
		q := qb.Select("readings").Query(s.Session)
		q.PageSize(15).PageState(state)
		it := q.Iter()
		state = it.PageState()
		var got []reading
		if err := it.Select(&got); err != nil {
			return err
		}
		all = append(all, got...)
	}
	return errors.Join(same("rows", len(all), 40), same("pages", pages, 3))
}

//go:embed migrations/*.cql
var scripts embed.FS

// migrations applies scripts with a call between their statements, and then a further script only.
func (s *suite) migrations() error {
	ctx := context.Background()
	files, err := fs.Sub(scripts, "migrations")
	if err != nil {
		return err
	}
	var calls []string
	calling := migrate.CallbackRegister{}
	note := func(_ context.Context, _ gocqlx.Session, ev migrate.CallbackEvent, name string) error {
		calls = append(calls, fmt.Sprint(ev, " ", name))
		return nil
	}
	calling.Add(migrate.BeforeMigration, "1-tables.cql", note)
	calling.Add(migrate.CallComment, "between", note)
	calling.Add(migrate.AfterMigration, "2-columns.cql", note)
	migrate.Callback = calling.Callback
	migrate.DefaultAwaitSchemaAgreement = migrate.AwaitSchemaAgreementBeforeEachStatement
	pending := func(want int) func() error {
		return func() error {
			got, err := migrate.Pending(ctx, s.Session, files)
			return errors.Join(err, same("pending", len(got), want))
		}
	}
	apply := func() error { return migrate.FromFS(ctx, s.Session, files) }
	return first(pending(2), apply, pending(0), apply,
		func() error {
			return same("calls", fmt.Sprint(calls), "[0 1-tables.cql 2 between 1 2-columns.cql]")
		},
		func() error {
			applied, err := migrate.List(ctx, s.Session)
			if err != nil {
				return err
			}
			text := ""
			for _, a := range applied {
				text += fmt.Sprint(a.Name, " ", a.Done, "; ")
			}
			return same("applied", text, "1-tables.cql 4; 2-columns.cql 2; ")
		},
		func() error {
			var got struct {
				Title string
				Pages int
			}
			err := qb.Select("books").Columns("title", "pages").Where(qb.EqLit("id",
				"1")).Query(s.Session).GetRelease(&got)
			return errors.Join(err, same("book", fmt.Sprint(got), "{Dune 412}"))
		},
	)
}
