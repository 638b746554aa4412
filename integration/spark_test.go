//go:build integration

package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

const (
	sparkKeyspace  = "spark"
	sparkFactor    = 3    // replicas
	sparkPartition = 20   // rows of a partition of table big
	sparkWritten   = 10e3 // rows that Spark writes
	sparkRows      = 200_000
	sparkChecks    = 14 // of the program

	levelAll = 5
)

// sparkRead contains the sums over the rows of table big, and their approximate size.
type sparkRead struct {
	rows     int64
	sum, crc int64 // of column v, with overflow; of the CRC-32 of column s
	bytes    int64 // of the values
}

// TestSpark reads and writes tables with Apache Spark and its unmodified Cassandra connector. The connector divides a
// table into partitions by system.size_estimates. CQLD_SPARK_ROWS=1000000 reads a table of that many rows.
func TestSpark(t *testing.T) {
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	if !exists(filepath.Join(root, ".tools/spark/classes/SparkSuite.class")) {
		missing(t, "Spark", fmt.Sprintf(installHint, "spark"))
	}
	rows := int64(sparkRows)
	if text := os.Getenv("CQLD_SPARK_ROWS"); text != "" {
		if rows, err = strconv.ParseInt(text, 10, 64); err != nil || rows < sparkRows/2 {
			t.Fatalf("CQLD_SPARK_ROWS is %q: want a number of at least %d, so that there is something to split", text,
				sparkRows/2)
		}
	}
	conns := dial(t)
	keyspace(t, conns[0], sparkKeyspace, sparkFactor)
	query(t, conns[0], "CREATE TABLE spark.big (k int, c int, v bigint, s text, PRIMARY KEY (k, c))",
		cqlclient.Options{})
	query(t, conns[0], "CREATE TABLE spark.written (k bigint PRIMARY KEY, v bigint, s text)", cqlclient.Options{})
	began := time.Now()
	want := loadForSpark(t, rows/sparkPartition)
	t.Logf("loaded %d rows, %d MB of values, in %.1f s", want.rows, want.bytes>>20, time.Since(began).Seconds())

	checkEstimates(t, conns, want)
	out := runSpark(t, root)
	checkSplits(t, out, want)
	if got := fmt.Sprint(want.rows, want.sum, want.crc); !strings.HasPrefix(out.line("read"), got+" ") {
		t.Errorf("Spark read %q, want %q: rows, sum, sum of checksums", out.line("read"), got)
	}
	if got := fmt.Sprint(want.rows); out.line("count") != got {
		t.Errorf("the servers count %s rows, want %s", out.line("count"), got)
	}
	checkWritten(t, conns[1])
}

// loadForSpark fills table big with partitions of sparkPartition rows, one unlogged batch each, on all replicas.
func loadForSpark(t *testing.T, partitions int64) sparkRead {
	t.Helper()
	var next, sum, crc, size atomic.Int64
	var loading sync.WaitGroup
	servers := sharedRing(t).Servers
	for i := range 2 * len(servers) {
		loading.Go(func() {
			c, err := cqlclient.Dial(servers[i%len(servers)].Address, 5)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			p, err := c.Prepare("INSERT INTO spark.big (k, c, v, s) VALUES (?, ?, ?, ?)")
			if err != nil || p.Err != nil {
				t.Error(err, p)
				return
			}
			for k := next.Add(1) - 1; k < partitions && !t.Failed(); k = next.Add(1) - 1 {
				batch, values := sparkBatch(p.Prepared.ID, k)
				if err := sendBatch(c, batch); err != nil {
					t.Error(err)
					return
				}
				sum.Add(values.sum)
				crc.Add(values.crc)
				size.Add(values.bytes)
			}
		})
	}
	loading.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return sparkRead{rows: partitions * sparkPartition, sum: sum.Load(), crc: crc.Load(), bytes: size.Load()}
}

// sparkBatch returns the rows of one partition, with incompressible values, and their sums.
func sparkBatch(id []byte, k int64) (batch []cqlclient.Statement, total sparkRead) {
	for c := range int64(sparkPartition) {
		v := int64(mix(uint64(k*sparkPartition + c)))
		s := make([]byte, 0, 192)
		for i := range uint64(12) {
			s = fmt.Appendf(s, "%016x", mix(uint64(v)+i))
		}
		total.sum += v
		total.crc += int64(crc32.ChecksumIEEE(s))
		total.bytes += int64(4 + 4 + 8 + len(s))
		batch = append(batch, cqlclient.Statement{ID: id, Values: []cqlclient.Value{
			{Bytes: binary.BigEndian.AppendUint32(nil, uint32(k))},
			{Bytes: binary.BigEndian.AppendUint32(nil, uint32(c))},
			{Bytes: binary.BigEndian.AppendUint64(nil, uint64(v))}, {Bytes: s}}})
	}
	return batch, total
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// sendBatch writes a batch to all replicas. On a busy machine it may need several attempts.
func sendBatch(c *cqlclient.Conn, batch []cqlclient.Statement) error {
	for try := 1; ; try++ {
		a, err := c.Batch(1, batch, cqlclient.Options{Consistency: levelAll})
		switch {
		case err != nil:
			return err
		case a.Err == nil:
			return nil
		case try == 5:
			return fmt.Errorf("a batch of %d rows: %w", len(batch), a.Err)
		}
	}
}

// checkEstimates reads system.size_estimates as planners do: the ranges of all nodes cover the ring once, and the
// estimated numbers of partitions and bytes are correct within a factor of two.
func checkEstimates(t *testing.T, conns []*cqlclient.Conn, want sparkRead) {
	t.Helper()
	var ring, partitions, size float64
	for _, c := range conns {
		a := query(t, c, `SELECT range_start, range_end, partitions_count, mean_partition_size FROM system.size_estimates
			WHERE keyspace_name = 'spark' AND table_name = 'big'`, cqlclient.Options{})
		for _, r := range a.Rows {
			start, err1 := strconv.ParseInt(string(r[0]), 10, 64)
			end, err2 := strconv.ParseInt(string(r[1]), 10, 64)
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			ring += float64(uint64(end) - uint64(start))
			n := float64(binary.BigEndian.Uint64(r[2]))
			partitions += n
			size += n * float64(binary.BigEndian.Uint64(r[3]))
		}
	}
	t.Logf("size estimates: %.0f partitions of %d, %.1f MB", partitions, want.rows/sparkPartition, size/(1<<20))
	if share := ring / math.Exp2(64); math.Abs(share-1) > 1e-9 {
		t.Errorf("the ranges of all nodes cover %v of the ring", share)
	}
	if ratio := partitions / float64(want.rows/sparkPartition); ratio < 0.5 || ratio > 2 {
		t.Errorf("%.0f partitions are estimated, of %d", partitions, want.rows/sparkPartition)
	}
	if ratio := size / float64(want.bytes); ratio < 0.5 || ratio > 2 {
		t.Errorf("%.0f bytes are estimated, of %d", size, want.bytes)
	}
}

// sparkOutput contains the lines of the program's output, by their first word.
type sparkOutput map[string][]string

// line returns the rest of the first line with a first word.
func (o sparkOutput) line(kind string) string {
	if len(o[kind]) == 0 {
		return ""
	}
	return o[kind][0]
}

// sparkSplits are the split sizes in MB that the program tries. The last one is the connector's default and larger than
// the table.
const sparkSplits = "1,4,512"

// runSpark executes the program; each of its checks is a subtest.
func runSpark(t *testing.T, root string) sparkOutput {
	t.Helper()
	_, dir := cqld(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	dir = filepath.Join(dir, "spark")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := sparkCommand(ctx, root, dir, sharedRing(t).Addresses())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	out := sparkOutput{}
	for lines := bufio.NewScanner(&stdout); lines.Scan(); {
		kind, rest, _ := strings.Cut(lines.Text(), " ")
		out[kind] = append(out[kind], rest)
		t.Log(lines.Text())
	}
	for _, check := range out["ok"] {
		t.Run(strings.Fields(check)[0], func(*testing.T) {})
	}
	for _, check := range out["fail"] {
		name, message, _ := strings.Cut(check, " ")
		t.Run(name, func(t *testing.T) { t.Error(message) })
	}
	if checks := len(out["ok"]) + len(out["fail"]); err != nil || checks != sparkChecks {
		t.Errorf("%d checks ran, of %d: %v\n%s", checks, sparkChecks, err, stderr.String())
	}
	if strings.Contains(stderr.String(), "ize estimates") {
		t.Errorf("the connector complains about the estimates:\n%s", stderr.String())
	}
	return out
}

// sparkCommand returns the program's process: two threads, 1 GiB of heap.
func sparkCommand(ctx context.Context, root, dir, addresses string) *exec.Cmd {
	in := func(path string) string { return filepath.Join(root, path) }
	args := []string{"-Xmx1g", "-Djava.io.tmpdir=" + dir, "-Dlog4j2.configurationFile=" +
		in("integration/drivers/spark/log4j2.properties")}
	// Spark needs these packages of the JDK; spark-submit opens them too.
	for _, p := range []string{"lang", "lang.invoke", "lang.reflect", "io", "net", "nio", "util", "util.concurrent",
		"util.concurrent.atomic"} {
		args = append(args, "--add-opens=java.base/java."+p+"=ALL-UNNAMED")
	}
	for _, p := range []string{"sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar"} {
		args = append(args, "--add-opens=java.base/"+p+"=ALL-UNNAMED")
	}
	cmd := exec.CommandContext(ctx, "java", append(args, "-cp",
		in(".tools/spark/lib/*")+":"+in(".tools/spark/classes"), "SparkSuite")...)
	cmd.Dir = dir
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append(os.Environ(), "SPARK_LOCAL_IP=127.0.0.1", "SPARK_LOCAL_HOSTNAME=localhost",
		"CQLD_CONTACT_POINTS="+addresses,
		"CQLD_KEYSPACE="+sparkKeyspace, "CQLD_SPARK_DIR="+dir, "CQLD_SPARK_SPLITS="+sparkSplits,
		fmt.Sprintf("CQLD_SPARK_WRITTEN=%d", int(sparkWritten)))
	return cmd
}

// checkSplits checks that the number of Spark's partitions corresponds to the size of the data.
//
//  1. The connector divides the estimated size, which is correct within a factor of two, by the split size.
//  2. It divides the ranges of the ring into parts of that share, which are up to 1.5 times as large by rounding.
//  3. It groups smaller parts until the next one would exceed the share: two consecutive groups exceed it, except where
//     the replicas change.
func checkSplits(t *testing.T, out sparkOutput, want sparkRead) {
	t.Helper()
	const minimum = 5 // 1 + 2 · threads
	last := math.MaxInt
	for i, mb := range strings.Split(sparkSplits, ",") {
		var size, got int
		if i >= len(out["splits"]) {
			t.Errorf("no splits for %s MB", mb)
			continue
		}
		if _, err := fmt.Sscan(out["splits"][i], &size, &got); err != nil || fmt.Sprint(size) != mb {
			t.Fatalf("splits for %s MB: %q", mb, out["splits"][i])
		}
		demand := int(want.bytes>>20) / size
		if got < max(demand/3, minimum) || got > 4*max(demand, minimum)+8 {
			t.Errorf("%d partitions of %d MB for %d MB", got, size, want.bytes>>20)
		}
		if got > last {
			t.Errorf("%d partitions for splits of %d MB, and %d for smaller ones", got, size, last)
		}
		last = got
	}
}

// checkWritten reads the rows that Spark wrote.
func checkWritten(t *testing.T, c *cqlclient.Conn) {
	t.Helper()
	seen, o := map[int64]bool{}, cqlclient.Options{PageSize: 1000, Consistency: quorum}
	for {
		a := query(t, c, "SELECT k, v, s FROM spark.written", o)
		for _, r := range a.Rows {
			k := int64(binary.BigEndian.Uint64(r[0]))
			if v := int64(binary.BigEndian.Uint64(r[1])); v != k*k || string(r[2]) != fmt.Sprint("row ", k) ||
				seen[k] || k < 0 || k >= sparkWritten {
				t.Fatalf("Spark wrote (%d, %d, %q), or it is duplicated", k, v, r[2])
			}
			seen[k] = true
		}
		if o.PagingState = a.PagingState; o.PagingState == nil {
			break
		}
	}
	if len(seen) != sparkWritten {
		t.Errorf("%d rows of the %d that Spark wrote", len(seen), int(sparkWritten))
	}
}
