//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// refusable returns nil for a result, and for an error with which a node refuses a request for lack of memory.
func refusable(a *cqlclient.Answer, err error) error {
	const overloaded, invalid, writeTimeout, readTimeout = 0x1001, 0x2200, 0x1100, 0x1200
	if err != nil || a.Err == nil {
		return err
	}
	switch a.Err.Code {
	case overloaded, invalid, writeTimeout, readTimeout:
		return nil
	}
	return a.Err
}

// together calls f in n goroutines and returns their errors.
func together(n int, f func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// unreadReplies pipelines reads of rows of m.large on connections that read no reply. The node may end them.
func unreadReplies(ctx context.Context, address string) error {
	const clients, requests, wait = 24, 10, 5 * time.Second
	return together(clients, func(i int) error {
		c, err := rawConnection(address, "")
		if err != nil {
			return err
		}
		defer c.Close()
		for stream := range requests {
			text := fmt.Sprintf("SELECT * FROM m.large WHERE k = %d", (i+stream)%20)
			if err := c.SetDeadline(time.Now().Add(wait)); err != nil {
				return err
			}
			if _, err := c.Write(envelope(opQuery, int16(stream), append(longText(text), 0, 1, 0))); err != nil {
				return nil
			}
		}
		rest(ctx, wait)
		return nil
	})
}

// compressedZeros sends small compressed bodies of 1 to 128 MiB of zeros, which is more than a frame may have.
func compressedZeros(ctx context.Context, address string) error {
	const clients, rounds, bodies = 16, 4, 8
	return together(clients, func(i int) error {
		for round := range rounds {
			c, err := rawConnection(address, "lz4")
			if err != nil {
				return err
			}
			go func() { _, _ = io.Copy(io.Discard, c) }()
			for n := range bodies {
				b := envelope(opQuery, int16(n), lz4Zeros(1<<(20+(i+round+n)%8)))
				b[1] |= 1 // compressed
				if _, err := c.Write(b); err != nil || ctx.Err() != nil {
					break // the node has ended the connection
				}
			}
			rest(ctx, 200*time.Millisecond)
			c.Close()
		}
		return nil
	})
}

// batchesOfNulls sends batches with as many values as a frame can contain. A decoded value takes eight times as much
// memory as in the frame.
func (m *memoryRing) batchesOfNulls(ctx context.Context) error {
	const clients, statements, rounds = 16, 30, 3
	nulls := make([]cqlclient.Value, math.MaxUint16)
	rows := make([]cqlclient.Statement, statements)
	for i := range rows {
		rows[i] = cqlclient.Statement{Text: "INSERT INTO m.t (k, c) VALUES (1, 1)", Values: nulls}
	}
	return m.each(ctx, clients, func(_ context.Context, _ int, c *cqlclient.Conn) error {
		for range rounds {
			if err := refusable(c.Batch(1, rows, cqlclient.Options{})); err != nil {
				return err
			}
		}
		return nil
	})
}

// largeCollections writes and reads lists of 100,000 elements, which take 160 times their size if they are decoded, and
// filters by their elements.
func (m *memoryRing) largeCollections(ctx context.Context, clients int) error {
	const lists, elements = 4, 100_000
	list := int32Bytes(elements)
	for i := range elements {
		list = append(append(list, int32Bytes(4)...), int32Bytes(i)...)
	}
	err := m.each(ctx, lists, func(ctx context.Context, i int, c *cqlclient.Conn) error {
		return patiently(ctx, func() (*cqlclient.Answer, error) {
			return c.Query("INSERT INTO m.lists (k, l) VALUES (?, ?)",
				cqlclient.Options{Values: []cqlclient.Value{{Bytes: int32Bytes(i)}, {Bytes: list}}})
		})
	})
	if err != nil {
		return err
	}
	return m.each(ctx, clients, func(ctx context.Context, i int, c *cqlclient.Conn) error {
		for _, text := range []string{fmt.Sprintf("SELECT l FROM m.lists WHERE k = %d", i%lists),
			"SELECT * FROM m.lists",
			"SELECT k FROM m.lists WHERE l CONTAINS -1 ALLOW FILTERING"} {
			if _, err := pages(ctx, c, text, cqlclient.Options{PageSize: 100}); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestMemoryOfTools copies rows from and to files with cqlsh and dsbulk. The node sees no /proc/meminfo, as the
// packaged unit does, and takes the limit of its cgroup nevertheless.
func TestMemoryOfTools(t *testing.T) {
	const (
		limit = 400 << 20
		rows  = 15_000
		size  = 1000
	)
	if err := process.CanHideProc(); err != nil {
		missing(t, "a private /proc", err.Error())
	}
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	m := startInMemory(t, limit, process.Options{Nodes: 1}, (*process.Server).HideProc)
	s, address := newShell(t, m.Servers[0].Address), m.Servers[0].Address
	if n := m.metric(t, "memory_limit_bytes"); n != limit {
		t.Errorf("the node uses %d bytes of memory, and its cgroup has %d", n, limit)
	}
	run(t, m.dial(t), "CREATE TABLE m.copied (k int, c int, v text, PRIMARY KEY (k, c))",
		"CREATE KEYSPACE bulk WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE bulk.t (id int PRIMARY KEY, name text, v bigint, at timestamp, tags frozen<set<int>>)")
	var copied, loaded strings.Builder
	loaded.WriteString("id,name,v,at,tags\n")
	for i := range rows {
		fmt.Fprintf(&copied, "%d,%d,%s\n", i/1000, i%1000, strings.Repeat(string(rune('a'+i%26)), size))
		fmt.Fprintf(&loaded, "%d,%s,%d,2024-01-02T03:04:05Z,\"[1,2]\"\n", i, strings.Repeat("n", size), i)
	}
	in := filepath.Join(s.dir, "bulk.csv")
	for file, text := range map[string]string{filepath.Join(s.dir, "in.csv"): copied.String(), in: loaded.String()} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m.survives(t, "COPY", func(context.Context) error {
		// At full speed, cqlsh sends more than may wait for the disk. It is slowed down, and nothing is refused.
		text, _ := s.run("COPY m.copied (k, c, v) FROM 'in.csv';\nCOPY m.copied (k, c, v) TO 'out.csv';\n")
		s.expect(text, fmt.Sprint(rows, " rows imported from 1 files in "),
			fmt.Sprint(rows, " rows exported to 1 files in "))
		return nil
	})
	if n := m.metric(t, "storage_writes_refused_total"); n != 0 {
		t.Errorf("%d writes were refused as overloaded during COPY", n)
	}
	if !exists(filepath.Join(root, ".tools/dsbulk.stamp")) {
		missing(t, "dsbulk", fmt.Sprintf(installHint, "dsbulk"))
	}
	jars, out := filepath.Join(root, ".tools/dsbulk/lib"), filepath.Join(s.dir, "out")
	m.survives(t, "dsbulk", func(context.Context) error {
		bulk(t, jars, s.dir, address, "load", in)
		bulk(t, jars, s.dir, address, "unload", out)
		if n := len(unloaded(t, out)); n != rows {
			return fmt.Errorf("%d rows are unloaded of %d", n, rows)
		}
		return nil
	})
}
