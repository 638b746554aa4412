// Command go-gocqlx uses the server by gocqlx, with the fork of gocql that gocqlx requires: see ../README.md.
package main

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/gocql/gocql"
	"github.com/scylladb/gocqlx/v3"
)

// suite executes steps in one keyspace.
type suite struct {
	gocqlx.Session
	keyspace string
	failed   bool
}

// check prints the verdict on one step. A step after a failed one is executed, too.
func (s *suite) check(name string, step func() error) {
	if err := step(); err != nil {
		s.failed = true
		fmt.Println("fail", name, strings.Join(strings.Fields(err.Error()), " "))
		return
	}
	fmt.Println("ok", name)
}

func main() {
	s := &suite{keyspace: os.Getenv("CQLD_KEYSPACE")}
	if err := s.open(strings.Split(os.Getenv("CQLD_CONTACT_POINTS"), ",")); err != nil {
		fmt.Println("fail connect", err)
		os.Exit(1)
	}
	s.check("schema", s.schema)
	s.check("crud", s.crud)
	s.check("clusterings", s.clusterings)
	s.check("builders", s.builders)
	s.check("functions", s.functions)
	s.check("named", s.named)
	s.check("collections", s.collections)
	s.check("types", s.userTypes)
	s.check("counters", s.counters)
	s.check("batches", s.batches)
	s.check("conditions", s.conditions)
	s.check("iterators", s.iterators)
	s.check("rewrite", s.rewrite)
	s.check("migrations", s.migrations)
	s.check("drop", func() error { return s.ExecStmt("DROP KEYSPACE " + s.keyspace) })
	s.Close()
	if s.failed {
		os.Exit(1)
	}
}

// open connects, and creates an empty keyspace.
func (s *suite) open(points []string) error {
	c := gocql.NewCluster(points...)
	c.Consistency, c.Timeout, c.ConnectTimeout = gocql.Quorum, 20*time.Second, 20*time.Second
	db, err := gocqlx.WrapSession(c.CreateSession())
	if err != nil {
		return err
	}
	rf, err := strconv.Atoi(os.Getenv("CQLD_RF"))
	if err != nil {
		return err
	}
	for _, text := range []string{"DROP KEYSPACE IF EXISTS " + s.keyspace,
		fmt.Sprintf("CREATE KEYSPACE %s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}",
			s.keyspace, rf)} {
		if err := db.ExecStmt(text); err != nil {
			return err
		}
	}
	db.Close()
	c.Keyspace = s.keyspace
	c.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
	s.Session, err = gocqlx.WrapSession(c.CreateSession())
	return err
}

// schema creates the tables of all steps.
func (s *suite) schema() error {
	for _, text := range []string{
		"CREATE TYPE place (street text, number int, tags frozen<set<text>>)",
		"CREATE TABLE people (first text, last text, emails list<text>, age int, PRIMARY KEY (first, last))",
		"CREATE TABLE shelves (name text PRIMARY KEY, words set<text>, counts map<text, int>, pair " +
			"frozen<tuple<int, text>>, seen timeuuid)",
		"CREATE TABLE homes (id uuid PRIMARY KEY, home frozen<place>, others list<frozen<place>>)",
		"CREATE TABLE visits (page text PRIMARY KEY, n counter)",
		"CREATE TABLE readings (sensor int, at timestamp, value double, PRIMARY KEY (sensor, at)) WITH CLUSTERING " +
			"ORDER BY (at DESC)",
		"CREATE TABLE copies (sensor int, at timestamp, value double, PRIMARY KEY (sensor, at))",
	} {
		if err := s.ExecStmt(text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

// same compares a value with the wanted one.
func same(what string, got, want any) error {
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%s: got %+v, want %+v", what, got, want)
	}
	return nil
}

// first calls steps in order, and returns the first error.
func first(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
