// Command go-ycsb runs the core workloads of the Yahoo Cloud Serving Benchmark with go-ycsb's own client and its own
// driver for Cassandra: see ../README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gocql/gocql"
	"github.com/magiconair/properties"
	_ "github.com/pingcap/go-ycsb/db/cassandra" // registers the driver
	"github.com/pingcap/go-ycsb/pkg/client"
	"github.com/pingcap/go-ycsb/pkg/measurement"
	"github.com/pingcap/go-ycsb/pkg/prop"
	"github.com/pingcap/go-ycsb/pkg/util"
	_ "github.com/pingcap/go-ycsb/pkg/workload" // registers the core workload
	"github.com/pingcap/go-ycsb/pkg/ycsb"
)

const (
	records     = 1000
	operations  = 1000
	threads     = 8
	fieldLength = 100
)

// benchmark runs workloads in one keyspace, each in an empty table.
type benchmark struct {
	session  *gocql.Session
	points   string
	keyspace string
	files    string // directory of go-ycsb's workload files
}

func main() {
	b := &benchmark{points: os.Getenv("CQLD_CONTACT_POINTS"), keyspace: os.Getenv("CQLD_KEYSPACE"),
		files: os.Getenv("CQLD_YCSB_WORKLOADS")}
	failed := false
	check := func(name string, step func() error) {
		if err := step(); err != nil {
			failed = true
			fmt.Println("fail", name, strings.Join(strings.Fields(err.Error()), " "))
			return
		}
		fmt.Println("ok", name)
	}
	check("connect", b.open)
	if failed {
		os.Exit(1)
	}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		var loaded *counted
		check("load_"+name, func() (err error) {
			loaded, err = b.run(name, false)
			return errors.Join(err, b.stored(records))
		})
		check("run_"+name, func() error {
			ran, err := b.run(name, true)
			if err != nil {
				return err
			}
			return errors.Join(ran.mix(name), b.stored(loaded.inserts.Load()+ran.inserts.Load()))
		})
	}
	check("drop", func() error { return b.session.Query("DROP KEYSPACE " + b.keyspace).Exec() })
	b.session.Close()
	if failed {
		os.Exit(1)
	}
}

// open connects with the driver that go-ycsb requires, and creates an empty keyspace.
func (b *benchmark) open() (err error) {
	c := gocql.NewCluster(strings.Split(b.points, ",")...)
	c.Consistency, c.Timeout, c.ConnectTimeout = gocql.Quorum, 20*time.Second, 20*time.Second
	if b.session, err = c.CreateSession(); err != nil {
		return err
	}
	rf, err := strconv.Atoi(os.Getenv("CQLD_RF"))
	if err != nil {
		return err
	}
	if err := b.session.Query("DROP KEYSPACE IF EXISTS " + b.keyspace).Exec(); err != nil {
		return err
	}
	return b.session.Query(fmt.Sprintf("CREATE KEYSPACE %s WITH replication = {'class': 'SimpleStrategy', "+
		"'replication_factor': %d}", b.keyspace, rf)).Exec()
}

// run loads the records of a workload, or executes its operations, as the commands "go-ycsb load" and "go-ycsb run" do.
// go-ycsb ends the process when a value that it reads is not the one that it wrote.
func (b *benchmark) run(name string, transactions bool) (*counted, error) {
	p, err := properties.LoadFile(filepath.Join(b.files, "workload"+name), properties.UTF8)
	if err != nil {
		return nil, err
	}
	for key, value := range map[string]string{"cassandra.cluster": b.points, "cassandra.keyspace": b.keyspace,
		prop.TableName: "usertable", prop.ThreadCount: strconv.Itoa(threads),
		prop.RecordCount: strconv.Itoa(records), prop.OperationCount: strconv.Itoa(operations),
		prop.FieldLength: strconv.Itoa(fieldLength), prop.DataIntegrity: "true",
		prop.DoTransactions: strconv.FormatBool(transactions), prop.DropData: strconv.FormatBool(!transactions)} {
		if _, _, err := p.Set(key, value); err != nil {
			return nil, err
		}
	}
	measurement.InitMeasure(p)
	workload, err := ycsb.GetWorkloadCreator("core").Create(p)
	if err != nil {
		return nil, err
	}
	db, err := ycsb.GetDBCreator("cassandra").Create(p)
	if err != nil {
		return nil, err
	}
	c := &counted{DB: db}
	client.NewClient(p, workload, client.DbWrapper{DB: c}).Run(context.Background())
	measurement.Output()
	return c, errors.Join(db.Close(), workload.Close(), c.failure())
}

// stored checks that the table contains the keys that the benchmark generates first, that many, and that all fields of
// each have their value's length.
func (b *benchmark) stored(count int64) error {
	wanted := map[string]bool{}
	for n := range count {
		wanted[fmt.Sprintf("user%d", util.Hash64(n))] = true
	}
	iter := b.session.Query("SELECT * FROM " + b.keyspace + ".usertable").PageSize(300).Iter()
	rows := int64(0)
	for row := (map[string]any{}); iter.MapScan(row); row = map[string]any{} {
		rows++
		key, ok := row["ycsb_key"].(string)
		if !ok || !wanted[key] {
			return fmt.Errorf("the table contains the key %v, which was not inserted", row["ycsb_key"])
		}
		for i := range 10 {
			name := fmt.Sprintf("field%d", i)
			if v, ok := row[name].(string); !ok || len(v) != fieldLength || !strings.HasPrefix(v, key+":"+name) {
				return fmt.Errorf("%s of %s is %q", name, key, v)
			}
		}
	}
	if err := iter.Close(); err != nil {
		return err
	}
	if rows != count {
		return fmt.Errorf("the table contains %d rows, want %d", rows, count)
	}
	return nil
}
