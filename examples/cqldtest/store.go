// Package cqldtest is an example of a program whose tests use a cqld ring in their own process: store.go is the
// program, store_test.go its test. It needs no server, container or port.
package cqldtest

import (
	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// Store keeps the names of users.
type Store struct {
	session *gocql.Session
}

// Open connects to a cluster and creates the schema.
func Open(cluster *gocql.ClusterConfig) (*Store, error) {
	session, err := cluster.CreateSession()
	if err != nil {
		return nil, err
	}
	for _, statement := range []string{
		`CREATE KEYSPACE IF NOT EXISTS example WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}`,
		`CREATE TABLE IF NOT EXISTS example.users (id int PRIMARY KEY, name text)`,
	} {
		if err := session.Query(statement).Exec(); err != nil {
			session.Close()
			return nil, err
		}
	}
	return &Store{session: session}, nil
}

// Add stores a user unless the id is in use, and reports whether it did.
func (s *Store) Add(id int, name string) (bool, error) {
	return s.session.Query(`INSERT INTO example.users (id, name) VALUES (?, ?) IF NOT EXISTS`, id, name).
		MapScanCAS(map[string]any{})
}

// Name returns the name of a user. The driver repeats only requests that are marked as idempotent when a node dies.
func (s *Store) Name(id int) (name string, err error) {
	err = s.session.Query(`SELECT name FROM example.users WHERE id = ?`, id).Idempotent(true).Scan(&name)
	return name, err
}

// Close ends the session.
func (s *Store) Close() { s.session.Close() }
