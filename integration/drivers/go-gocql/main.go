// Command go-gocql runs the driver suite with github.com/gocql/gocql.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gocql/gocql"

	"cqld/integration/drivers/gosuite"
)

func main() {
	os.Exit(gosuite.Main(gosuite.Driver{
		Open:         open,
		Compressions: []string{"snappy"},
		Unset:        gocql.UnsetValue,
		Duration:     func(m, d int32, n int64) any { return gocql.Duration{Months: m, Days: d, Nanoseconds: n} },
		UUID:         func(s string) any { return must(gocql.ParseUUID(s)) },
		Code: func(err error) int {
			var r gocql.RequestError
			if errors.As(err, &r) {
				return r.Code()
			}
			return -1
		},
	}))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// ring counts the hosts that the driver reports to its policy.
type ring struct {
	gocql.HostSelectionPolicy
	mu    sync.Mutex
	hosts map[string]*gocql.HostInfo
}

func (r *ring) AddHost(h *gocql.HostInfo) {
	r.mu.Lock()
	r.hosts[h.HostID()] = h
	r.mu.Unlock()
	r.HostSelectionPolicy.AddHost(h)
}

func (r *ring) RemoveHost(h *gocql.HostInfo) {
	r.mu.Lock()
	delete(r.hosts, h.HostID())
	r.mu.Unlock()
	r.HostSelectionPolicy.RemoveHost(h)
}

type session struct {
	*gocql.Session
	ring *ring
}

func open(s gosuite.Settings, compression string) (gosuite.Session, error) {
	r := &ring{HostSelectionPolicy: gocql.TokenAwareHostPolicy(gocql.DCAwareRoundRobinPolicy(s.DC)),
		hosts: map[string]*gocql.HostInfo{}}
	c := gocql.NewCluster(s.Points...)
	c.Consistency = gocql.Quorum
	c.Timeout = 15 * time.Second
	c.ConnectTimeout = 15 * time.Second
	c.ProtoVersion = 4
	c.DefaultIdempotence = true
	c.PoolConfig.HostSelectionPolicy = r
	c.ReconnectInterval = time.Second // interval at which the driver retries nodes that are down; events may be missed
	if !s.NoRetries {
		c.RetryPolicy = &gocql.SimpleRetryPolicy{NumRetries: s.Nodes}
	}
	if ca := os.Getenv("CQLD_TLS_CA"); ca != "" {
		c.SslOpts = &gocql.SslOptions{CaPath: ca, CertPath: os.Getenv("CQLD_TLS_CERT"),
			KeyPath: os.Getenv("CQLD_TLS_KEY"), EnableHostVerification: true}
	}
	if compression == "snappy" {
		c.Compressor = gocql.SnappyCompressor{}
	}
	if s.User != "" {
		c.Authenticator = gocql.PasswordAuthenticator{Username: s.User, Password: s.Password}
	}
	db, err := c.CreateSession()
	return &session{db, r}, err
}

func (s *session) query(text string, args []any) *gocql.Query {
	return s.Session.Query(text, args...).Idempotent(true)
}

func (s *session) Exec(text string, args ...any) error { return s.query(text, args).Exec() }

func (s *session) Row(text string, args ...any) (map[string]any, error) {
	row := map[string]any{}
	return row, s.query(text, args).MapScan(row)
}

func (s *session) Rows(text string) (rows [][]any, err error) {
	iter := s.query(text, nil).Iter()
	for {
		data, err := iter.RowData()
		if err != nil {
			_ = iter.Close() // it returns the error of RowData
			return nil, err
		}
		if !iter.Scan(data.Values...) {
			return rows, iter.Close()
		}
		rows = append(rows, data.Values)
	}
}

func (s *session) Ints(size int, state []byte, text string) ([]int, []byte, error) {
	// The driver does not fetch further pages for a query with a paging state, even an empty one.
	iter := s.query(text, nil).PageSize(size).PageState(state).Iter()
	var values []int
	next := iter.PageState()
	for v, i := 0, iter.NumRows(); i > 0 && iter.Scan(&v); i-- {
		values = append(values, v)
	}
	return values, next, iter.Close()
}

func (s *session) AllInts(size int, text string) ([]int, error) {
	iter := s.query(text, nil).PageSize(size).Iter()
	var values []int
	for v := 0; iter.Scan(&v); {
		values = append(values, v)
	}
	return values, iter.Close()
}

func (s *session) Batch(logged bool, statements []gosuite.Statement) error {
	kind := gocql.UnloggedBatch
	if logged {
		kind = gocql.LoggedBatch
	}
	b := s.Session.NewBatch(kind)
	for _, st := range statements {
		b.Query(st.Text, st.Args...)
	}
	return s.Session.ExecuteBatch(b)
}

func (s *session) CAS(text string, args ...any) (applied bool, row map[string]any, err error) {
	row = map[string]any{}
	applied, err = s.Session.Query(text, args...).MapScanCAS(row)
	return applied, row, err
}

func (s *session) BatchCAS(statements []gosuite.Statement) (bool, error) {
	b := s.Session.NewBatch(gocql.LoggedBatch)
	for _, st := range statements {
		b.Query(st.Text, st.Args...)
	}
	row := map[string]any{}
	applied, iter, err := s.Session.MapExecuteBatchCAS(b, row)
	if err != nil {
		return false, err
	}
	return applied, iter.Close()
}

func (s *session) Named(name string, value any) any { return gocql.NamedValue(name, value) }

func (s *session) Ring() (nodes, tokens int) {
	s.ring.mu.Lock()
	defer s.ring.mu.Unlock()
	for _, h := range s.ring.hosts {
		nodes++
		tokens += len(h.Tokens())
	}
	return nodes, tokens
}

func (s *session) Table(keyspace, table string) map[string]string {
	ks, err := s.Session.KeyspaceMetadata(keyspace)
	if err != nil || ks.Tables[table] == nil {
		return nil
	}
	columns := map[string]string{}
	for name, c := range ks.Tables[table].Columns {
		kind := strings.TrimSuffix(c.Kind.String(), "_key")
		if kind == "partition" {
			kind = "partition_key"
		}
		columns[name] = fmt.Sprintf("%s %s %s", kind, c.Validator, c.ClusteringOrder)
	}
	return columns
}

func (s *session) Agree() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return s.Session.AwaitSchemaAgreement(ctx)
}

func (s *session) Trace(text string) (string, error) {
	var out bytes.Buffer
	err := s.query(text, nil).Trace(gocql.NewTraceWriter(s.Session, &out)).Exec()
	return out.String(), err
}
