package gosuite

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	rollingWorkers = 4
	rollingPause   = 5 * time.Millisecond // between two requests of one worker
)

// runRolling writes and reads with several workers until the input ends. The driver does not retry: each failed request
// is printed.
func runRolling(d Driver, s Settings) int {
	s.NoRetries = true
	db, err := d.Open(s, "")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer db.Close()
	table := s.Keyspace + ".rolling"
	err = firstError(db.Exec("DROP KEYSPACE IF EXISTS "+s.Keyspace), db.Exec(s.createKeyspace()),
		db.Exec("CREATE TABLE "+table+" (id int PRIMARY KEY)"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var stop atomic.Bool
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop.Store(true)
	}()
	fmt.Println("ready")
	var answered atomic.Int64
	var workers sync.WaitGroup
	for w := range rollingWorkers {
		workers.Go(func() {
			for id := w; !stop.Load(); id += rollingWorkers {
				for _, text := range []string{"INSERT INTO " + table + " (id) VALUES (?)", "SELECT id FROM " + table +
					" WHERE id = ?"} {
					if err := db.Exec(text, id); err != nil {
						report("error", err)
					} else {
						answered.Add(1)
					}
					time.Sleep(rollingPause)
				}
			}
		})
	}
	workers.Wait()
	fmt.Println("answered", answered.Load())
	fmt.Println("done")
	return 0
}
