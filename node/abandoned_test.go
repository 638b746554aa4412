package node

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"cqld/azuretables/client"
	"cqld/integration/cqlclient"
	"cqld/internal/await"
	"cqld/internal/env"
	"cqld/node/config"
)

// slowScan is a scan that takes ten seconds in steps of a millisecond. It counts its steps and checks its Cancel like
// storage.
type slowScan struct {
	steps   atomic.Int64
	running atomic.Int64
}

func (s *slowScan) run(cancel *env.Cancel) error {
	s.running.Add(1)
	defer s.running.Add(-1)
	for range 10_000 {
		if err := cancel.Err(); err != nil {
			return err
		}
		s.steps.Add(1)
		time.Sleep(time.Millisecond)
	}
	return nil
}

// stepsAfterMax is the maximum number of steps after the end of a request: a tenth of a second on an idle machine, plus
// a margin for concurrent tests.
const stepsAfterMax = 1000

// A scan ends soon after its client has disconnected, after the server is drained, and after its timeout: on the node
// that the client is connected to, and on other nodes.
func TestAbandonedScansEnd(t *testing.T) {
	for _, protocol := range []string{"CQL", "Tables"} {
		for at, where := range []string{"here", "on another node"} {
			for _, end := range []string{"disconnect", "drain", "timeout"} {
				t.Run(fmt.Sprintf("%s %s %s", protocol, where, end),
					func(t *testing.T) { abandonScan(t, protocol, at, end) })
			}
		}
	}
}

func abandonScan(t *testing.T, protocol string, at int, end string) {
	r := openNodes(t, 66, 2, func(o *config.Options) {
		if end == "timeout" {
			o.Timeouts.Range, o.Timeouts.Read = 500*time.Millisecond, 500*time.Millisecond
		} else {
			o.Timeouts.Range, o.Timeouts.Read = time.Minute, time.Minute
		}
	})
	c := r.connect(0)
	var scan slowScan
	ask := r.cqlScan(c)
	table := "k.t"
	if protocol == "Tables" {
		table, ask = "races", r.tablesScan()
	}
	r.faults[at].set(func() { r.faults[at].table, r.faults[at].scan = r.tableOf(table), scan.run })
	ctx, hangUp := context.WithCancel(context.Background())
	defer hangUp()
	answered := make(chan error, 1)
	go func() { answered <- ask(ctx) }()
	r.eventually("the scan begins", func() bool { return scan.steps.Load() > 5 })
	began, before := time.Now(), scan.steps.Load()
	switch end {
	case "disconnect":
		hangUp()
	case "drain":
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		n := r.nodes[0]
		if protocol == "CQL" {
			_ = n.servers.StopCQL(ctx)
		} else {
			_ = n.servers.DrainTables(ctx)
		}
	case "timeout":
		if err := <-answered; err == nil {
			t.Error("a request that took too long succeeded")
		}
		before = scan.steps.Load()
		began = time.Now()
	}
	await.Reached(time.Minute, func() bool { return scan.running.Load() == 0 })
	took, steps := time.Since(began), scan.steps.Load()-before
	t.Logf("ended after %v and %d steps", took, steps)
	if scan.running.Load() > 0 || steps > stepsAfterMax {
		t.Errorf("%d scans run, %d steps were made after the end", scan.running.Load(), steps)
	}
	if n := r.nodes[at].panics(); n != 0 {
		t.Errorf("%d panics", n)
	}
}

func (n *Node) panics() (sum int64) {
	for _, count := range n.guard.Counts() {
		sum += count
	}
	return sum
}

// cqlScan creates a table that both nodes store parts of, and reads all of it.
func (r *inProcess) cqlScan(c *cqlclient.Conn) func(context.Context) error {
	r.fill(c, "1", 20)
	return func(ctx context.Context) error {
		c := r.connect(0)
		defer context.AfterFunc(ctx, func() { c.Close() })()
		_, err := send(c, "SELECT count(*) FROM k.t", cqlclient.Options{})
		return err
	}
}

// tablesScan creates a table of Azure Tables, and lists it.
func (r *inProcess) tablesScan() func(context.Context) error {
	c := r.tables(0)
	if status, err := r.ask(c, client.Request{Method: "POST", Path: "/Tables",
		Body: []byte(`{"TableName":"races"}`)}); status != 201 {
		r.t.Fatalf("create a table: %d, %v", status, err)
	}
	for i := range 5 {
		req := client.Request{Method: "PUT", Path: client.EntityPath("races", fmt.Sprint("p", i), "r"),
			Body: []byte(`{}`)}
		if status, err := r.ask(c, req); status != 204 {
			r.t.Fatalf("insert an entity: %d, %v", status, err)
		}
	}
	return func(ctx context.Context) error {
		resp, err := c.Do(ctx, client.Request{Method: "GET", Path: "/races()"})
		if err == nil && resp.Status != 200 {
			err = fmt.Errorf("status %d", resp.Status)
		}
		return err
	}
}
