//go:build integration

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"cqld/azuretables"
	"cqld/azuretables/client"
	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// growthSlack is how much the memory of a process may change between two readings.
const growthSlack = 16 << 20

// TestMemoryOfReads reads data larger than the memory of a node, by key and by scans of everything.
func TestMemoryOfReads(t *testing.T) {
	const (
		limit        = 300 << 20
		rows         = 200_000 // 1.3 times the limit
		perPartition = 40
		size         = 2000
		reads        = 4000 // by each of readers clients
		readers      = 16
	)
	m := startInMemory(t, limit, process.Options{Nodes: 1})
	run(t, m.dial(t), "CREATE TABLE m.t (k int, c int, v blob, PRIMARY KEY (k, c))")
	m.survives(t, "writes", func(ctx context.Context) error { return m.fill(ctx, "m.t", rows, perPartition, size) })
	m.survives(t, "reads by key", func(ctx context.Context) error {
		return m.each(ctx, readers, func(ctx context.Context, i int, c *cqlclient.Conn) error {
			p, err := c.Prepare("SELECT v FROM m.t WHERE k = ?")
			if err != nil {
				return err
			}
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for range reads / perPartition {
				k := random.IntN(rows / perPartition)
				err := patiently(ctx, func() (*cqlclient.Answer, error) {
					return c.Execute(p.Prepared, cqlclient.Options{Values: []cqlclient.Value{{Bytes: int32Bytes(k)}}})
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	scans := func(ctx context.Context) error {
		return m.each(ctx, 2, func(ctx context.Context, _ int, c *cqlclient.Conn) error {
			n, err := pages(ctx, c, "SELECT * FROM m.t", cqlclient.Options{PageSize: 5000})
			if err == nil && n != rows {
				err = fmt.Errorf("%d rows in pages of a scan", n)
			}
			return err
		})
	}
	m.survives(t, "scans", scans)
	full := m.addsUp(t)
	m.survives(t, "more scans", scans)
	if more := m.addsUp(t); more > full+full/8+growthSlack {
		t.Errorf("the process has %d MiB after further scans, and had %d MiB with a full cache", more>>20, full>>20)
	}
}

// addsUp checks that the parts of the first node's memory add up to what the kernel counts for its process, within the
// margin in docs/OPERATING.md, and stay below its limit. It returns the kernel's count.
func (m *memoryRing) addsUp(t *testing.T) int64 {
	t.Helper()
	value := func(name string) int64 { return m.metric(t, name) }
	sum, resident, limit := value("memory_used_bytes"), value("memory_resident_bytes"), value("memory_limit_bytes")
	t.Logf("parts %d MiB, resident %d MiB of %d MiB", sum>>20, resident>>20, limit>>20)
	if off := max(sum-resident, resident-sum); off > resident/20+growthSlack {
		t.Errorf("the parts have %d MiB, and the kernel counts %d MiB", sum>>20, resident>>20)
	}
	if resident > limit {
		t.Errorf("%d MiB are resident of %d MiB", resident>>20, limit>>20)
	}
	return resident
}

// metric returns a metric of the first node.
func (m *memoryRing) metric(t *testing.T, name string) int64 {
	t.Helper()
	return serverMetric(t, m.Servers[0], name)
}

// serverMetric returns a metric of a node, without its prefix.
func serverMetric(t *testing.T, s *process.Server, name string) int64 {
	t.Helper()
	page, err := s.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(page) {
		if number, ok := strings.CutPrefix(line, "cqld_"+name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			if err != nil {
				t.Fatal(err)
			}
			return int64(n)
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// largeClients is the number of clients that send large requests at the same time.
const largeClients = 30

// TestMemoryOfTheLargestRows reads rows of nearly the largest size with many clients.
func TestMemoryOfTheLargestRows(t *testing.T) {
	m := startInMemory(t, 2<<30, process.Options{Nodes: 1})
	run(t, m.dial(t), "CREATE TABLE m.large (k int, c int, v blob, PRIMARY KEY (k, c))")
	m.largeRows(t, 14<<20)
}

// largeRows writes and reads rows of a size.
func (m *memoryRing) largeRows(t *testing.T, size int) {
	t.Helper()
	m.survives(t, "large rows", func(ctx context.Context) error {
		if err := m.fill(ctx, "m.large", 20, 1, size); err != nil {
			return err
		}
		return m.each(ctx, largeClients, func(ctx context.Context, i int, c *cqlclient.Conn) error {
			for range 2 {
				text := fmt.Sprintf("SELECT v FROM m.large WHERE k = %d", i%20)
				if err := patiently(ctx, func() (*cqlclient.Answer,
					error) {
					return c.Query(text, cqlclient.Options{})
				}); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// TestMemoryOfLargeRequests reads large rows and whole partitions with many clients, writes wide batches, and sends
// what costs a node more than its clients: replies that are not read, compressed zeros, values without bytes, and large
// collections.
func TestMemoryOfLargeRequests(t *testing.T) {
	const (
		wide   = 20_000 // rows of the large partition
		rounds = 20     // of batches of each client
		batch  = 200    // partitions of a batch
	)
	m := startInMemory(t, 1<<30, process.Options{Nodes: 1})
	run(t, m.dial(t), "CREATE TABLE m.t (k int, c int, v blob, PRIMARY KEY (k, c))",
		"CREATE TABLE m.large (k int, c int, v blob, PRIMARY KEY (k, c))",
		"CREATE TABLE m.wide (k int, c int, v blob, PRIMARY KEY (k, c))",
		"CREATE TABLE m.lists (k int PRIMARY KEY, l list<int>)")
	m.largeRows(t, 4<<20)
	m.survives(t, "clients that do not read", func(ctx context.Context) error {
		return unreadReplies(ctx, m.Servers[0].Address)
	})
	m.survives(t, "compressed zeros", func(ctx context.Context) error {
		return compressedZeros(ctx, m.Servers[0].Address)
	})
	m.survives(t, "batches of nulls", m.batchesOfNulls)
	m.survives(t, "large collections", func(ctx context.Context) error { return m.largeCollections(ctx, 8) })
	m.survives(t, "a large partition", func(ctx context.Context) error {
		if err := m.fill(ctx, "m.wide", wide, wide, 1000); err != nil {
			return err
		}
		return m.each(ctx, largeClients, func(ctx context.Context, i int, c *cqlclient.Conn) error {
			n, err := pages(ctx, c, "SELECT * FROM m.wide WHERE k = 0", cqlclient.Options{PageSize: 5000})
			if err == nil && n != wide {
				err = fmt.Errorf("%d rows", n)
			}
			return err
		})
	})
	m.survives(t, "wide batches", func(ctx context.Context) error {
		return m.each(ctx, largeClients, func(ctx context.Context, i int, c *cqlclient.Conn) error {
			p, err := c.Prepare("INSERT INTO m.t (k, c, v) VALUES (?, ?, ?)")
			if err != nil {
				return err
			}
			for round := range rounds {
				var rows []cqlclient.Statement
				for n := range batch {
					rows = append(rows, cqlclient.Statement{ID: p.Prepared.ID, Values: []cqlclient.Value{
						{Bytes: int32Bytes((i*rounds+round)*batch + n)}, {Bytes: int32Bytes(n)},
						{Bytes: make([]byte, 60)}}})
				}
				if err := patiently(ctx, func() (*cqlclient.Answer,
					error) {
					return c.Batch(byte(round%2), rows, cqlclient.Options{})
				}); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// TestMemoryOfOneCore reads large collections with many clients from a node that executes on one core.
func TestMemoryOfOneCore(t *testing.T) {
	m := startInMemory(t, 1<<30, process.Options{Nodes: 1}, (*process.Server).OneCore)
	run(t, m.dial(t), "CREATE TABLE m.lists (k int PRIMARY KEY, l list<int>)")
	m.survives(t, "large collections", func(ctx context.Context) error { return m.largeCollections(ctx, 32) })
}

// TestMemoryOfIndexes writes rows with indexes and reads by them, and queries the same table with Azure Tables'
// protocol.
func TestMemoryOfIndexes(t *testing.T) {
	const (
		limit = 400 << 20
		rows  = 40_000
	)
	m := startInMemory(t, limit, process.Options{Nodes: 1})
	run(t, m.dial(t), "CREATE TABLE m.t (k int, c int, v blob, w vector<float, 8>, g int, PRIMARY KEY (k, c))",
		"CREATE INDEX ON m.t (v)",
		"CREATE INDEX ON m.t (w) USING 'sai'", "CREATE INDEX ON m.t (g)")
	m.survives(t, "writes", func(ctx context.Context) error { return m.fill(ctx, "m.t", rows, 20, 900) })
	m.survives(t, "vectors", func(ctx context.Context) error {
		return m.each(ctx, 4, func(ctx context.Context, i int, c *cqlclient.Conn) error {
			for n := range 1000 {
				text := fmt.Sprintf("INSERT INTO m.t (k, c, g, w) VALUES (%d, %d, %d, [%d, 2, 3, 4, 5, 6, 7, %d])", i,
					n, n%5, n, n%7)
				if err := patiently(ctx, func() (*cqlclient.Answer,
					error) {
					return c.Query(text, cqlclient.Options{})
				}); err != nil {
					return err
				}
			}
			return nil
		})
	})
	m.survives(t, "searches", func(ctx context.Context) error {
		return m.each(ctx, 8, func(ctx context.Context, i int, c *cqlclient.Conn) error {
			for n := range 5 {
				for _, text := range []string{fmt.Sprintf("SELECT * FROM m.t WHERE g = %d", n),
					"SELECT k FROM m.t ORDER BY w ANN OF [1, 2, 3, 4, 5, 6, 7, 8] LIMIT 100"} {
					if _, err := pages(ctx, c, text, cqlclient.Options{PageSize: 1000}); err != nil {
						return err
					}
				}
			}
			return nil
		})
	})
	a, err := client.New(m.Servers[0].Tables, azuretables.DevelopmentAccount, azuretables.DevelopmentKey, 16)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	tables := func(ctx context.Context, r client.Request, status int) error {
		answer, err := a.Do(ctx, r)
		if err == nil && answer.Status != http.StatusServiceUnavailable { // ServerBusy is a refusal that clients repeat
			err = answer.Err(status)
		}
		return err
	}
	m.survives(t, "Tables queries", func(ctx context.Context) error {
		if err := tables(ctx, client.Request{Method: "POST", Path: "/Tables", Body: []byte(`{"TableName": "Large"}`)},
			http.StatusCreated); err != nil {
			return err
		}
		for n := range 20 {
			var changes []client.Change
			for row := range 100 {
				body := fmt.Sprintf(`{"PartitionKey": "%d", "RowKey": "%d", "v": "%s"}`, n, row,
					strings.Repeat("x", 15_000))
				changes = append(changes, client.Change{Method: "POST", Body: []byte(body)})
			}
			if err := tables(ctx, client.Transaction("Large", changes), http.StatusAccepted); err != nil {
				return err
			}
		}
		return m.each(ctx, 16, func(ctx context.Context, _ int, _ *cqlclient.Conn) error {
			for range 4 {
				if err := tables(ctx, client.Request{Method: "GET", Path: "/Large()"}, http.StatusOK); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// TestMemoryOfARing streams to a node that joins, writes while a node is down, which needs hints and then repair, and
// reads all.
func TestMemoryOfARing(t *testing.T) {
	const (
		limit = 400 << 20
		rows  = 50_000
	)
	m := startInMemory(t, limit, process.Options{Nodes: 2, Spare: 1, YAML: []string{"auto_repair_enabled: false"}})
	run(t, m.dial(t), "CREATE TABLE m.t (k int, c int, v blob, PRIMARY KEY (k, c))")
	m.survives(t, "writes", func(ctx context.Context) error { return m.fill(ctx, "m.t", rows, 20, 2000) })
	m.survives(t, "a join", func(context.Context) error {
		s := m.Spare[0]
		m.Spare, m.Servers = nil, append(m.Servers, s)
		if err := s.Start(); err != nil {
			return err
		}
		return m.WaitAgreed(ringStart)
	})
	down := m.Servers[2]
	down.Kill()
	m.Servers = m.Servers[:2]
	m.survives(t, "writes for a node that is down", func(ctx context.Context) error {
		return m.fill(ctx, "m.t", rows/2, 20, 2000)
	})
	m.Servers = append(m.Servers, down)
	m.survives(t, "hints and repair", func(ctx context.Context) error {
		if err := down.Start(); err != nil {
			return err
		}
		if err := m.WaitAgreed(ringStart); err != nil {
			return err
		}
		if out, err := ctl(t, m.Servers[0], "repair", "m"); err != nil {
			return fmt.Errorf("repair: %w: %s", err, out)
		}
		return m.each(ctx, 4, func(ctx context.Context, _ int, c *cqlclient.Conn) error {
			n, err := pages(ctx, c, "SELECT * FROM m.t", cqlclient.Options{PageSize: 5000})
			if err == nil && n != rows {
				err = fmt.Errorf("%d rows", n)
			}
			return err
		})
	})
}
