package cqldtest_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"cqld/cqldtest"
	"cqld/internal/cputime"
)

// scanBenchRows is the number of rows of each table that BenchmarkScans reads.
const scanBenchRows = 1_000_000

// BenchmarkScans reads whole tables through CQL: with pages, with aggregates, with a filter and with GROUP BY, on one
// node and on a ring of four with QUORUM. The metric cpu-µs/row is the CPU time of the process (all nodes and the
// client) for each row of the table, also for rows that are not part of the answer.
func BenchmarkScans(b *testing.B) {
	for _, nodes := range []int{1, 4} {
		b.Run(fmt.Sprintf("nodes%d", nodes), func(b *testing.B) { benchScans(b, nodes) })
	}
}

func benchScans(b *testing.B, nodes int) {
	ring := cqldtest.Start(b, cqldtest.Nodes(nodes))
	config := gocql.NewCluster(ring.Addresses()...)
	config.Port, config.Logger, config.Timeout = ring.Port(), quiet{}, time.Minute
	session, err := config.CreateSession()
	if err != nil {
		b.Fatal(err)
	}
	defer session.Close()
	statement := "CREATE KEYSPACE b WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}"
	for _, statement := range []string{
		fmt.Sprintf(statement, min(nodes, 3)),
		"CREATE TABLE b.single (k int PRIMARY KEY, v int, w bigint, x text)",
		"CREATE TABLE b.rows (k int, c int, v int, w bigint, x text, PRIMARY KEY (k, c))",
	} {
		if err := session.Query(statement).Exec(); err != nil {
			b.Fatal(err)
		}
	}
	insertScanRows(b, session)
	for _, x := range []struct {
		name, query string
		rows        int // in the answer
	}{
		{"count-single", "SELECT count(*) FROM b.single", 1},
		{"count-rows", "SELECT count(*) FROM b.rows", 1},
		{"sum-rows", "SELECT sum(w) FROM b.rows", 1},
		{"filter-single", "SELECT k FROM b.single WHERE v = 7 ALLOW FILTERING", scanBenchRows / 1000},
		{"filter-rows", "SELECT k, c FROM b.rows WHERE v = 7 ALLOW FILTERING", scanBenchRows / 1000},
		{"group-rows", "SELECT k, max(w) FROM b.rows GROUP BY k", scanBenchRows / 100},
		{"all-single", "SELECT * FROM b.single", scanBenchRows},
		{"all-rows", "SELECT * FROM b.rows", scanBenchRows},
	} {
		b.Run(x.name, func(b *testing.B) { benchScanQuery(b, session, x.query, x.rows) })
	}
}

// insertScanRows writes scanBenchRows rows into each of the tables of BenchmarkScans, with 16 clients.
func insertScanRows(b *testing.B, session *gocql.Session) {
	const clients = 16
	var wait sync.WaitGroup
	failures := make(chan error, clients)
	for client := range clients {
		wait.Go(func() {
			for k := client; k < scanBenchRows/100; k += clients {
				batch := session.Batch(gocql.UnloggedBatch)
				for c := range 100 {
					n := k*100 + c
					batch.Query("INSERT INTO b.rows (k, c, v, w, x) VALUES (?, ?, ?, ?, 'some text')", k, c, n%1000,
						int64(n))
					batch.Query("INSERT INTO b.single (k, v, w, x) VALUES (?, ?, ?, 'some text')", n, n%1000, int64(n))
				}
				if err := batch.Exec(); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	wait.Wait()
	select {
	case err := <-failures:
		b.Fatal(err)
	default:
	}
}

func benchScanQuery(b *testing.B, session *gocql.Session, query string, rows int) {
	before := cputime.Process()
	for b.Loop() {
		n := 0
		iter := session.Query(query).Iter()
		for scanner := iter.Scanner(); scanner.Next(); {
			n++
		}
		if err := iter.Close(); err != nil || n != rows {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64((cputime.Process()-before).Nanoseconds())/1000/float64(b.N)/scanBenchRows, "cpu-µs/row")
}
