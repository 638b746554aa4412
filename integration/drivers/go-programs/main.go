// Command go-programs runs small programs that use a database as well-known applications do: see ../README.md.
package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// program is one application.
type program struct {
	*gocql.Session
	keyspace string
	points   []string
	failed   bool
}

// check prints the verdict on one step. A step after a failed one is executed, too.
func (p *program) check(name string, step func() error) {
	if err := step(); err != nil {
		p.failed = true
		fmt.Println("fail", name, strings.Join(strings.Fields(err.Error()), " "))
		return
	}
	fmt.Println("ok", name)
}

func main() {
	run := map[string]func(*program){"workflow": workflow, "visibility": visibility, "mapper": mapper,
		"vectors": vectors, "orm": orm,
		"migrations": migrations, "mixes": mixes}[strings.Join(os.Args[1:], " ")]
	if run == nil {
		fmt.Fprintln(os.Stderr, "usage: workflow | visibility | mapper | vectors | orm | migrations | mixes")
		os.Exit(2)
	}
	p := &program{keyspace: os.Getenv("CQLD_KEYSPACE"), points: strings.Split(os.Getenv("CQLD_CONTACT_POINTS"), ",")}
	if err := p.open(); err != nil {
		fmt.Println("fail connect", err)
		os.Exit(1)
	}
	run(p)
	p.check("drop", func() error { return p.Query("DROP KEYSPACE " + p.keyspace).Exec() })
	p.Close()
	if p.failed {
		os.Exit(1)
	}
}

// open connects, and creates an empty keyspace.
func (p *program) open() error {
	c := gocql.NewCluster(p.points...)
	c.Consistency, c.Timeout, c.ConnectTimeout = gocql.Quorum, 20*time.Second, 20*time.Second
	s, err := c.CreateSession()
	if err != nil {
		return err
	}
	rf, err := strconv.Atoi(os.Getenv("CQLD_RF"))
	if err != nil {
		return err
	}
	for _, text := range []string{"DROP KEYSPACE IF EXISTS " + p.keyspace,
		fmt.Sprintf("CREATE KEYSPACE %s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}",
			p.keyspace, rf)} {
		if err := s.Query(text).Exec(); err != nil {
			return err
		}
	}
	s.Close()
	c.Keyspace = p.keyspace
	c.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
	p.Session, err = c.CreateSession()
	return err
}

// all executes statements in order.
func (p *program) all(statements ...string) error {
	for _, s := range statements {
		if err := p.Query(s).Exec(); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// want compares the rows of a query, each printed as its values, with wanted ones. Their order matters.
func (p *program) want(rows []string, text string, args ...any) error {
	got, err := p.rows(text, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	if fmt.Sprint(got) != fmt.Sprint(rows) {
		return fmt.Errorf("%s returned %v, want %v", text, got, rows)
	}
	return nil
}

// rows returns the rows of a query, each printed as its values.
func (p *program) rows(text string, args ...any) ([]string, error) {
	iter := p.Query(text, args...).PageSize(5).Iter()
	rows := []string{}
	for {
		data, err := iter.RowData()
		if err != nil {
			_ = iter.Close() // it returns the error of RowData
			return nil, err
		}
		if !iter.Scan(data.Values...) {
			return rows, iter.Close()
		}
		var values []string
		for _, v := range data.Values {
			values = append(values, printed(v))
		}
		rows = append(rows, strings.Join(values, " "))
	}
}

// soon repeats a query until it is answered, for at most ten seconds: an index that is being built refuses reads.
func (p *program) soon(text string, args ...any) error {
	var err error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if _, err = p.rows(text, args...); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s: %w", text, err)
}

// refused checks that a statement fails with an error that contains a text.
func (p *program) refused(want, text string, args ...any) error {
	if _, err := p.rows(text, args...); err == nil || !strings.Contains(err.Error(), want) {
		return fmt.Errorf("%s: got the error %w, want %q", text, err, want)
	}
	return nil
}

// first returns the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// sorted compares the numbers in the first column of a query's rows, in increasing order.
func (p *program) sorted(want, text string, args ...any) error {
	rows, err := p.rows(text, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	numbers := make([]int, len(rows))
	for i, r := range rows {
		if numbers[i], err = strconv.Atoi(r); err != nil {
			return err
		}
	}
	slices.Sort(numbers)
	if got := fmt.Sprint(numbers); got != want {
		return fmt.Errorf("%s returned %s, want %s", text, got, want)
	}
	return nil
}
