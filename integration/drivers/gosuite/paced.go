package gosuite

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	pacedWorkers  = 64
	pacedInterval = 300 * time.Millisecond // between two requests of one worker
)

// runPaced inserts with many workers until the input ends, each at most once in pacedInterval. In step, all workers
// send at the same moment; otherwise their moments are spread over the interval. A worker whose request took longer
// sends its next one immediately. The driver does not retry: each failed request is printed.
func runPaced(d Driver, s Settings, inStep bool) int {
	s.NoRetries = true
	db, err := d.Open(s, "")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer db.Close()
	table := s.Keyspace + ".paced"
	err = firstError(db.Exec("DROP KEYSPACE IF EXISTS "+s.Keyspace), db.Exec(s.createKeyspace()),
		db.Exec("CREATE TABLE "+table+" (id int PRIMARY KEY)"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	stop := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	fmt.Println("ready")
	var answered atomic.Int64
	var workers sync.WaitGroup
	began := time.Now()
	for w := range pacedWorkers {
		workers.Go(func() {
			next := began
			if !inStep {
				next = next.Add(pacedInterval * time.Duration(w) / pacedWorkers)
			}
			for id := w; ; id += pacedWorkers {
				select {
				case <-stop:
					return
				case <-time.After(time.Until(next)):
				}
				if err := db.Exec("INSERT INTO "+table+" (id) VALUES (?)", id); err != nil {
					report("error", err)
				} else {
					answered.Add(1)
				}
				for next = next.Add(pacedInterval); time.Since(next) > pacedInterval; next = next.Add(pacedInterval) {
				}
			}
		})
	}
	workers.Wait()
	fmt.Println("answered", answered.Load())
	fmt.Println("done")
	return 0
}

// programs are the programs by their arguments.
var programs = map[string]func(Driver, Settings) int{
	"suite": runSuite, "failover": runFailover, "ring": runRing, "rolling": runRolling, "login": runLogin,
	"script": runScript,
	"paced":  func(d Driver, s Settings) int { return runPaced(d, s, false) },
	"step":   func(d Driver, s Settings) int { return runPaced(d, s, true) },
}

// usage names the programs.
const usage = "usage: suite | failover | ring | rolling | login | script | paced | step"

func program(arguments []string) func(Driver, Settings) int {
	return programs[strings.Join(arguments, " ")]
}
