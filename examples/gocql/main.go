// Command gocql is an example of a program in Go that uses cqld with the driver gocql: prepared statements, a page at a
// time, a batch, and a conditional change.
//
// Start a ring with "cqld local", then run it: go run ./gocql. CQLD_CONTACT_POINTS names other nodes.
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

func main() {
	points := os.Getenv("CQLD_CONTACT_POINTS")
	if points == "" {
		points = "127.0.0.1"
	}
	if err := run(strings.Split(points, ",")); err != nil {
		log.Fatal(err)
	}
}

func run(contactPoints []string) error {
	cluster := gocql.NewCluster(contactPoints...)
	cluster.Consistency = gocql.Quorum // a read sees every acknowledged write
	cluster.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
	cluster.Timeout = 10 * time.Second
	session, err := cluster.CreateSession()
	if err != nil {
		return err
	}
	defer session.Close()
	for _, statement := range []string{
		`DROP KEYSPACE IF EXISTS example_gocql`,
		`CREATE KEYSPACE example_gocql WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}`,
		`CREATE TABLE example_gocql.readings (sensor text, day date, at timestamp, value double,
			PRIMARY KEY ((sensor, day), at)) WITH CLUSTERING ORDER BY (at DESC)`,
		`CREATE TABLE example_gocql.stock (item text PRIMARY KEY, pieces int)`,
	} {
		if err := session.Query(statement).Exec(); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	if err := write(session); err != nil {
		return err
	}
	if err := read(session); err != nil {
		return err
	}
	return sell(session)
}

// write stores the readings of one day in one partition: batches of one partition are atomic and cost one write.
func write(session *gocql.Session) error {
	day := time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
	batch := session.Batch(gocql.UnloggedBatch)
	for hour := range 24 {
		batch.Query(`INSERT INTO example_gocql.readings (sensor, day, at, value) VALUES (?, ?, ?, ?)`,
			"roof", day, day.Add(time.Duration(hour)*time.Hour), 10+float64(hour)/4)
	}
	return batch.Exec()
}

// read shows the latest readings. The driver requests further pages of ten rows while the loop consumes them.
func read(session *gocql.Session) error {
	iter := session.Query(`SELECT at, value FROM example_gocql.readings WHERE sensor = ? AND day = ?`,
		"roof", "2026-03-01").PageSize(10).Iter()
	var at time.Time
	var value float64
	rows := 0
	for iter.Scan(&at, &value) {
		if rows < 2 {
			fmt.Printf("%s %.2f\n", at.UTC().Format(time.TimeOnly), value)
		}
		rows++
	}
	fmt.Println(rows, "readings")
	return iter.Close()
}

// sell takes pieces from the stock, but never more than there are: the replicas decide with Paxos, whichever other
// clients change the row at the same time.
func sell(session *gocql.Session) error {
	if err := session.Query(`INSERT INTO example_gocql.stock (item, pieces) VALUES ('lamp', 3)`).Exec(); err != nil {
		return err
	}
	for _, n := range []int{2, 2} {
		var left int
		if err := session.Query(`SELECT pieces FROM example_gocql.stock WHERE item = 'lamp'`).Scan(&left); err != nil {
			return err
		}
		if left < n {
			fmt.Println("only", left, "left")
			continue
		}
		applied, err := session.Query(`UPDATE example_gocql.stock SET pieces = ? WHERE item = 'lamp' IF pieces = ?`,
			left-n, left).ScanCAS(&left)
		if err != nil {
			return err
		}
		if !applied {
			return errors.New("another program sold lamps meanwhile: run the example again")
		}
		fmt.Println("sold", n)
	}
	return nil
}
