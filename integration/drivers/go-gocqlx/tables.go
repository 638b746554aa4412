package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/gocql/gocql"
	"github.com/scylladb/gocqlx/v3/dbutil"
	"github.com/scylladb/gocqlx/v3/qb"
	"github.com/scylladb/gocqlx/v3/table"
)

// person is a row of table people; its columns are named after the fields.
type person struct {
	First, Last string
	Emails      []string
	Age         int
}

// people describes the table of persons.
func people() *table.Table {
	return table.New(table.Metadata{Name: "people", Columns: []string{"first", "last", "emails", "age"},
		PartKey: []string{"first"}, SortKey: []string{"last"}})
}

// crud inserts, reads, updates and deletes rows by the table's metadata.
func (s *suite) crud() error {
	t := people()
	ada := person{"Ada", "Lovelace", []string{"a@x", "a@y"}, 36}
	byron := person{"Ada", "Byron", nil, 12}
	get := func(p person) (person, error) {
		got := person{First: p.First, Last: p.Last}
		err := t.GetQuery(s.Session).BindStruct(got).GetRelease(&got)
		return got, err
	}
	want := func(p person) func() error {
		return func() error {
			got, err := get(p)
			return errors.Join(err, same("get", got, p))
		}
	}
	older := ada
	older.Age = 37
	return first(
		t.InsertQuery(s.Session).BindStruct(ada).ExecRelease,
		t.InsertQuery(s.Session).BindStruct(byron).ExecRelease,
		want(ada), want(byron),
		t.UpdateQuery(s.Session, "age").BindStruct(older).ExecRelease,
		want(older),
		func() error { // a partition, in the order of clusterings
			var got []person
			err := t.SelectQuery(s.Session).BindStruct(person{First: "Ada"}).SelectRelease(&got)
			return errors.Join(err, same("select", got, []person{byron, older}))
		},
		func() error {
			var got []string
			err := t.SelectQuery(s.Session, "last").BindMap(qb.M{"first": "Ada"}).SelectRelease(&got)
			return errors.Join(err, same("select last", got, []string{"Byron", "Lovelace"}))
		},
		t.DeleteQuery(s.Session, "emails").BindStruct(older).ExecRelease,
		want(person{"Ada", "Lovelace", nil, 37}),
		t.DeleteQuery(s.Session).BindStruct(ada).ExecRelease,
		func() error {
			if _, err := get(ada); !errors.Is(err, gocql.ErrNotFound) {
				return fmt.Errorf("a deleted row is answered with the error %w", err)
			}
			return nil
		},
		want(byron),
	)
}

// reading is a row of tables readings and copies.
type reading struct {
	Sensor int
	At     time.Time
	Value  float64
}

func readings(name string) *table.Table {
	return table.New(table.Metadata{Name: name, Columns: []string{"sensor", "at", "value"},
		PartKey: []string{"sensor"}, SortKey: []string{"at"}})
}

func second(n int) time.Time { return time.Unix(1_700_000_000+int64(n), 0).UTC() }

// clusterings reads ranges of a partition.
func (s *suite) clusterings() error {
	t := readings("readings")
	insert := t.InsertQuery(s.Session)
	for sensor := range 2 {
		for n := range 20 {
			if err := insert.BindStruct(reading{sensor, second(n), float64(n) / 4}).Exec(); err != nil {
				return err
			}
		}
	}
	insert.Release()
	values := func(b *qb.SelectBuilder, args qb.M) (got []float64, err error) {
		return got, b.Columns("value").Query(s.Session).BindMap(args).SelectRelease(&got)
	}
	want := func(b *qb.SelectBuilder, args qb.M, values_ ...float64) func() error {
		return func() error {
			got, err := values(b, args)
			return errors.Join(err, same("values", got, values_))
		}
	}
	part := qb.Eq("sensor")
	return first(
		want(qb.Select("readings").Where(part, qb.GtOrEqNamed("at", "from"), qb.LtNamed("at", "to")),
			qb.M{"sensor": 1, "from": second(4), "to": second(7)}, 1.5, 1.25, 1),
		want(qb.Select("readings").Where(part).OrderBy("at", qb.ASC).Limit(3), qb.M{"sensor": 0}, 0, 0.25, 0.5),
		want(qb.Select("readings").Where(part).LimitNamed("most"), qb.M{"sensor": 0, "most": 2}, 4.75, 4.5),
		want(qb.Select("readings").Where(part, qb.In("at")),
			qb.M{"sensor": 1, "at": []time.Time{second(8), second(2)}}, 2, 0.5),
		want(qb.Select("readings").Where(qb.In("sensor")).LimitPerPartition(1), qb.M{"sensor": []int{0, 1}}, 4.75,
			4.75),
		want(qb.Select("readings").Where(part, qb.Gt("value")).AllowFiltering(), qb.M{"sensor": 1, "value": 4.4}, 4.75,
			4.5),
	)
}

// rewrite copies a table into another one, with changed values.
func (s *suite) rewrite() error {
	source, target := readings("readings"), readings("copies")
	if err := dbutil.RewriteTable(s.Session, target, source, func(m map[string]any) {
		m["value"] = m["value"].(float64) * 2
	}); err != nil {
		return err
	}
	var got struct {
		Count      int
		Least, Sum float64
	}
	err := qb.Select("copies").Columns("COUNT(*) AS count", "MIN(value) AS least",
		"SUM(value) AS sum").Query(s.Session).GetRelease(&got)
	if got.Count != 40 || got.Least != 0 || got.Sum != 190 {
		return fmt.Errorf("the copied rows are %+v: %w", got, err)
	}
	return err
}
