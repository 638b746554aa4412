package main

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gocql/gocql"
	"github.com/scylladb/gocqlx/v3"
	"github.com/scylladb/gocqlx/v3/qb"
)

// builders executes what the query builders make of TTLs, timestamps, literals and aggregates.
func (s *suite) builders() error {
	insert := qb.Insert("people").Columns("first", "last").LitColumn("age", "50").TTLNamed("ttl").TimestampNamed("at")
	at := time.Now().Add(-time.Hour).UnixMicro()
	var row struct {
		Age     int
		TTL     int
		Written int64
	}
	read := qb.Select("people").Columns("age", qb.As("ttl(age)", "ttl"),
		qb.As("writetime(age)", "written")).Where(qb.EqLit("first", "'Alan'"), qb.EqNamed("last", "name"))
	return first(
		insert.Query(s.Session).BindMap(qb.M{"first": "Alan", "last": "Turing", "ttl": 1000, "at": at}).ExecRelease,
		func() error {
			err := read.Query(s.Session).BindMap(qb.M{"name": "Turing"}).GetRelease(&row)
			if row.Age != 50 || row.TTL < 900 || row.TTL > 1000 || row.Written != at {
				return fmt.Errorf("the row is %+v, want the time %d: %w", row, at, err)
			}
			return err
		},
		func() error {
			return qb.Update("people").SetLit("age", "51").SetNamed("emails", "list").Where(qb.Eq("first"),
				qb.Eq("last")).Timestamp(time.Now()).Query(s.Session).
				BindStructMap(person{First: "Alan", Last: "Turing"}, qb.M{"list": []string{"t@x"}}).ExecRelease()
		},
		func() error {
			var got person
			err := people().GetQuery(s.Session).BindStruct(person{First: "Alan", Last: "Turing"}).GetRelease(&got)
			return errors.Join(err, same("updated", got, person{"Alan", "Turing", []string{"t@x"}, 51}))
		},
		qb.Delete("people").Where(qb.EqLit("first", "'Alan'"), qb.GtOrEqLit("last", "'A'"),
			qb.LtLit("last", "'U'")).Query(s.Session).ExecRelease,
		func() error {
			var count int
			err := qb.Select("people").CountAll().Where(qb.EqLit("first", "'Alan'")).Query(s.Session).GetRelease(&count)
			return errors.Join(err, same("count", count, 0))
		},
		func() error {
			var got []string
			err := qb.Select("people").Distinct("first").Query(s.Session).SelectRelease(&got)
			return errors.Join(err, same("distinct", got, []string{"Ada"}))
		},
	)
}

// functions binds markers in calls, and ranges of tokens.
func (s *suite) functions() error {
	before := time.Now().Add(-time.Minute)
	return first(
		qb.Insert("shelves").Columns("name").FuncColumn("seen",
			qb.Now()).Query(s.Session).BindMap(qb.M{"name": "f"}).ExecRelease,
		func() error {
			var id gocql.UUID
			q := qb.Select("shelves").Columns("seen").Where(qb.EqLit("name", "'f'"),
				qb.GtFunc("seen", qb.MinTimeuuid("from")),
				qb.LtFunc("seen", qb.MaxTimeuuid("to"))).AllowFiltering().Query(s.Session)
			err := q.BindMap(qb.M{"from": before, "to": time.Now().Add(time.Minute)}).GetRelease(&id)
			if err == nil && id.Time().Before(before) {
				err = fmt.Errorf("the time of now() is %v", id.Time())
			}
			return err
		},
		func() error {
			var got []int
			q := qb.Select("readings").Distinct("sensor").Where(qb.Token("sensor").GtOrEqValueNamed("low"),
				qb.Token("sensor").LtValueNamed("high")).Query(s.Session)
			err := q.BindMap(qb.M{"low": int64(math.MinInt64), "high": int64(math.MaxInt64)}).SelectRelease(&got)
			if err == nil && len(got) != 2 {
				err = fmt.Errorf("the partitions between all tokens are %v", got)
			}
			return err
		},
		qb.Delete("shelves").Where(qb.Eq("name")).Query(s.Session).Bind("f").ExecRelease,
	)
}

// named compiles statements with named parameters.
func (s *suite) named() error {
	text, names, err := gocqlx.CompileNamedQueryString("INSERT INTO people (first, last, age) VALUES (:first, " +
		":last, :age)")
	if err != nil {
		return err
	}
	return first(
		s.Query(text, names).BindStruct(person{First: "Grace", Last: "Hopper", Age: 85}).ExecRelease,
		func() error { // markers with names, which the server knows
			var age int
			err := s.Query("SELECT age FROM people WHERE first = :first AND last = :last",
				[]string{"first", "last"}).BindMap(qb.M{"first": "Grace", "last": "Hopper"}).GetRelease(&age)
			return errors.Join(err, same("age", age, 85))
		},
		s.Query("DELETE FROM people WHERE first = ?", nil).Bind("Grace").ExecRelease,
	)
}

// shelf is a row of table shelves.
type shelf struct {
	Name   string
	Words  []string
	Counts map[string]int
}

// collections adds to collections and removes from them, and binds a tuple.
func (s *suite) collections() error {
	at := []qb.Cmp{qb.EqLit("name", "'s'")}
	return first(
		qb.Insert("shelves").Columns("name", "words", "counts").TupleColumn("pair", 2).Query(s.Session).
			BindMap(qb.M{"name": "s", "words": []string{"a", "b"}, "counts": map[string]int{"a": 1}, "pair[0]": 7,
				"pair[1]": "seven"}).ExecRelease,
		qb.Update("shelves").AddNamed("words", "more").RemoveLit("counts",
			"{'a'}").Where(at...).Query(s.Session).BindMap(qb.M{"more": []string{"c"}}).ExecRelease,
		qb.Update("shelves").Add("counts").RemoveNamed("words",
			"less").Where(at...).Query(s.Session).BindMap(qb.M{"counts": map[string]int{"z": 9},
			"less": []string{"a"}}).ExecRelease,
		func() error {
			var got shelf
			err := qb.Select("shelves").Columns("name", "words",
				"counts").Where(at...).Query(s.Session).GetRelease(&got)
			return errors.Join(err, same("shelf", got, shelf{"s", []string{"b", "c"}, map[string]int{"z": 9}}))
		},
		func() error {
			var number int
			var text string
			err := qb.Select("shelves").Columns("pair").Where(at...).Query(s.Session).Scan(&number, &text)
			return errors.Join(err, same("pair", fmt.Sprint(number, text), "7seven"))
		},
		func() error {
			var got []string
			err := qb.Select("shelves").Columns("name").Where(qb.Contains("words"),
				qb.ContainsKeyNamed("counts", "key")).AllowFiltering().Query(s.Session).
				BindMap(qb.M{"words": "b", "key": "z"}).SelectRelease(&got)
			return errors.Join(err, same("names", got, []string{"s"}))
		},
	)
}

// place is a value of the user-defined type of that name. gocqlx encodes it by the names of its fields, and gocql, in
// lists, by their tags.
type place struct {
	gocqlx.UDT
	Street string   `cql:"street"`
	Number int      `cql:"number"`
	Tags   []string `cql:"tags"`
}

// home is a row of table homes.
type home struct {
	ID     gocql.UUID
	Home   place
	Others []place
}

// userTypes stores values of a user-defined type, alone and in a list.
func (s *suite) userTypes() error {
	id := gocql.TimeUUID()
	stored := home{ID: id, Home: place{Street: "Main", Number: 3, Tags: []string{"x", "y"}},
		Others: []place{{Street: "Side", Number: 1}, {Street: "Back", Tags: []string{"z"}}}}
	return first(
		qb.Insert("homes").Columns("id", "home", "others").Query(s.Session).BindStruct(stored).ExecRelease,
		func() error {
			var got home
			err := qb.Select("homes").Where(qb.Eq("id")).Query(s.Session).Strict().BindMap(qb.M{"id": id}).
				GetRelease(&got)
			return errors.Join(err, same("home", got, stored))
		},
		func() error {
			var street string
			err := qb.Select("homes").Columns("home.street").Where(qb.Eq("id")).Query(s.Session).
				BindMap(qb.M{"id": id}).GetRelease(&street)
			return errors.Join(err, same("street", street, "Main"))
		},
	)
}
