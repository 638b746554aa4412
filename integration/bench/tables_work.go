package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cqld/azuretables"
	"cqld/azuretables/client"
)

// The data for Azure Tables: entities of about 1 KB, in one partition or in many. A transaction may have at most 100
// entities in the protocol, and a page at most 1000.
const (
	// Partitions p000 to p099.
	manyPartitions = 100
	payloadSize    = 900
	batchSize      = 100
	pageSize       = 1000
	// The smallest answers: entities without metadata.
	accept = "application/json;odata=nometadata"
)

// spreadTable is one table under load: its partitions, and its number of rows. It is shared by all connections.
type spreadTable struct {
	name string
	many bool
	// Inserts draw their numbers from it, so no two connections insert the same row.
	rows atomic.Int64
}

// keys returns the keys of the n-th row. Consecutive rows are in different partitions, if there are many. For example
// p017 and r00000042, or p and r00004217.
func (s *spreadTable) keys(n int64) (pk, rk string) {
	if s.many {
		return fmt.Sprintf("p%03d", n%manyPartitions), fmt.Sprintf("r%08d", n/manyPartitions)
	}
	return "p", fmt.Sprintf("r%08d", n)
}

// tablesOp is one request: its bytes, its number of entities, and the expected status. build fills c.request; check, if
// set, reads the body of a successful answer.
type tablesOp struct {
	entities int
	status   int
	build    func(c *tablesConn, r *rand.Rand)
	check    func(body []byte) error
}

// tablesConn is one connection with the buffers of its request. It is used by one goroutine. Its buffers keep their
// capacity.
type tablesConn struct {
	*httpConn
	key     []byte // of the development account, which all servers have
	host    string
	request []byte
	body    []byte
	// The header x-ms-date, which is formatted once a second. HTTP dates have a resolution of one second.
	date      string
	dateUntil time.Time
}

// ask encodes the request with c.body. The result is c.request. more are further headers, each with its line end. For
// example:
//
//	POST /devstoreaccount1/Benchone0cqld1 HTTP/1.1
//	Host: 127.0.0.1:10002
//	x-ms-version: 2019-02-02
//	…
//	Authorization: SharedKey devstoreaccount1:c2lnbmF0dXJl…
func (c *tablesConn) ask(method, path, query, contentType, more string) {
	if now := time.Now(); now.After(c.dateUntil) {
		// HTTP dates are in GMT.
		c.date, c.dateUntil = now.UTC().Format(http.TimeFormat), now.Truncate(time.Second).Add(time.Second)
	}
	target := "/" + azuretables.DevelopmentAccount + path
	// Each request is signed, as the SDKs do; the client's CPU time does not count.
	signature := client.Sign(c.key, client.StringToSign(method, contentType, c.date, azuretables.DevelopmentAccount,
		target, query))
	// Appended to the buffer of the request before.
	b := append(c.request[:0], method...)
	b = append(append(b, ' '), target...)
	if query != "" {
		b = append(append(b, '?'), query...)
	}
	b = append(append(b, " HTTP/1.1\r\nHost: "...), c.host...)
	b = append(append(b, "\r\nx-ms-version: 2019-02-02\r\nDataServiceVersion: 3.0\r\nAccept: "+
		""+accept+"\r\nx-ms-date: "...), c.date...)
	b = append(append(b, "\r\nAuthorization: SharedKey "+azuretables.DevelopmentAccount+":"...), signature...)
	b = append(append(b, "\r\n"...), more...)
	// Requests without a content type have no body.
	if contentType != "" {
		b = append(append(append(b, "Content-Type: "...), contentType...), "\r\n"...)
		b = fmt.Appendf(b, "Content-Length: %d\r\n", len(c.body))
	}
	c.request = append(append(b, "\r\n"...), c.body...)
}

// payload is the text property of every entity.
var payload = strings.Repeat("x", payloadSize)

// appendEntity appends an entity of about 1 KB in JSON. Its properties are a text, a number and a boolean, besides the
// payload.
func appendEntity(b []byte, pk, rk string, n int64) []byte {
	return fmt.Appendf(b, `{"PartitionKey":"%s","RowKey":"%s","Bib":%d,"Finished":%v,"Name":"John","Payload":"%s"}`,
		pk, rk, n, n%2 == 0, payload)
}

// tablesWork returns the operation with a name, on a table that contains rows. loaded is the number of rows at this
// time; rows that are inserted later are not read. The operations are:
//
//	insert    POST of a new row
//	upsert    PUT of a row that exists
//	point     GET of a row
//	batch     POST of a hundred new rows
//	page      GET of a thousand rows
func tablesWork(name string, s *spreadTable) (*tablesOp, error) {
	loaded := s.rows.Load()
	switch name {
	case "insert":
		return &tablesOp{entities: 1, status: 204, build: func(c *tablesConn, _ *rand.Rand) {
			// The number is taken even if the insert fails, which leaves a gap.
			n := s.rows.Add(1) - 1
			pk, rk := s.keys(n)
			c.body = appendEntity(c.body[:0], pk, rk, n)
			c.ask("POST", "/"+s.name, "", "application/json", "Prefer: return-no-content\r\n")
		}}, nil
	case "upsert":
		// A PUT without If-Match is Insert Or Replace.
		return &tablesOp{entities: 1, status: 204, build: func(c *tablesConn, r *rand.Rand) {
			n := r.Int64N(loaded)
			pk, rk := s.keys(n)
			c.body = appendEntity(c.body[:0], pk, rk, n)
			c.ask("PUT", client.EntityPath(s.name, pk, rk), "", "application/json", "")
		}}, nil
	case "point":
		return &tablesOp{entities: 1, status: 200, build: func(c *tablesConn, r *rand.Rand) {
			pk, rk := s.keys(r.Int64N(loaded))
			c.body = c.body[:0]
			c.ask("GET", client.EntityPath(s.name, pk, rk), "", "", "")
		}}, nil
	case "batch":
		return &tablesOp{entities: batchSize, status: 202, build: func(c *tablesConn, _ *rand.Rand) { c.batch(s) },
			check: func(body []byte) error {
				// The status of a transaction is 202 in any case; its parts have the results.
				if n := bytes.Count(body, []byte("HTTP/1.1 204 ")); n != batchSize {
					return fmt.Errorf("bench: %d of %d inserts were done: %.300s", n, batchSize, body)
				}
				return nil
			}}, nil
	case "page":
		return &tablesOp{entities: pageSize, status: 200, build: func(c *tablesConn, r *rand.Rand) {
			c.body = c.body[:0]
			c.ask("GET", "/"+s.name+"()", "$top=1000&$filter="+s.range1000(r, loaded), "", "")
		}, check: func(body []byte) error {
			// Counting is cheaper than parsing.
			if n := bytes.Count(body, []byte(`"Payload":`)); n != pageSize {
				return fmt.Errorf("bench: a page of %d entities instead of %d", n, pageSize)
			}
			return nil
		}}, nil
	}
	return nil, fmt.Errorf("bench: no workload %q; there are insert, upsert, point, batch, page", name)
}

// batch encodes a transaction of inserts after the rows of the table, in one partition. Azurite requires boundaries
// with the prefixes that the SDKs use.
func (c *tablesConn) batch(s *spreadTable) {
	// The whole range of numbers at once, so that transactions do not share a row.
	from := s.rows.Add(batchSize) - batchSize
	c.body = append(c.body[:0], "--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n"...)
	var entity []byte
	for i := range int64(batchSize) {
		pk, rk := "p", fmt.Sprintf("r%08d", from+i)
		if s.many {
			// The prefix b separates the rows of transactions from the rows of single inserts.
			pk, rk = fmt.Sprintf("p%03d", from/batchSize%manyPartitions), "b"+rk
		}
		entity = appendEntity(entity[:0], pk, rk, from+i)
		c.body = fmt.Appendf(c.body, "--changeset_c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: "+
			"binary\r\n\r\nPOST http://%s/%s/%s HTTP/1.1\r\nAccept: %s\r\nPrefer: "+
			"return-no-content\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s\r\n",
			c.host, azuretables.DevelopmentAccount, s.name, accept, len(entity), entity)
	}
	c.body = append(c.body, "--changeset_c--\r\n--batch_b--\r\n"...)
	c.ask("POST", "/$batch", "", "multipart/mixed; boundary=batch_b", "")
}

// range1000 returns a query for a thousand entities from a random position, in one partition or over ten or more. The
// position is random, so that no server answers from one cached page. For example:
//
//	PartitionKey ge 'p042'
//	PartitionKey eq 'p' and RowKey ge 'r00003000'
func (s *spreadTable) range1000(r *rand.Rand, loaded int64) string {
	if s.many {
		// From a partition on, over as many as contain a thousand.
		each := loaded / manyPartitions
		// The last partition from which enough entities follow.
		last := manyPartitions - (pageSize+each-1)/each
		return fmt.Sprintf("PartitionKey%%20ge%%20'p%03d'", r.Int64N(last+1))
	}
	// Not from the last thousand but one: failed inserts leave gaps.
	return fmt.Sprintf("PartitionKey%%20eq%%20'p'%%20and%%20RowKey%%20ge%%20'r%08d'",
		r.Int64N(max(loaded-2*pageSize, 0)+1))
}

// tablesRun is a closed loop: a number of connections, with one request in flight on each. HTTP/1.1 has no streams: 64
// in flight are 64 connections.
type tablesRun struct {
	addresses []string
	op        *tablesOp
	inFlight  int
	ops       int64
	limit     time.Duration

	// Requests that were begun, over all connections.
	issued atomic.Int64
}

// do executes the run. Refused requests are not an error: they are reported beside the throughput. An error is one of a
// connection that could not be replaced, or of an answer that is wrong.
func (r *tablesRun) do() (*outcome, error) {
	total := &outcome{Latency: newHistogram()}
	var mu sync.Mutex
	var wg sync.WaitGroup
	errs := make([]error, r.inFlight)
	began := time.Now()
	for i := range r.inFlight {
		wg.Go(func() {
			o, err := r.connection(r.addresses[i%len(r.addresses)], uint64(i), began)
			errs[i] = err
			mu.Lock()
			defer mu.Unlock()
			total.Ops += o.Ops
			total.Errors += o.Errors
			total.Latency.Merge(o.Latency)
		})
	}
	wg.Wait()
	total.Elapsed = time.Since(began)
	return total, firstOf(errs)
}

// brokenMax bounds the requests of a connection that end with a broken connection. Azurite breaks some under load; a
// server that breaks all of them fails.
const brokenMax = 20

// again returns a new connection to replace a broken one. On failure it returns the closed connection, which the caller
// closes again without harm.
func (c *tablesConn) again(address string) (*httpConn, error) {
	c.close()
	conn, err := dialHTTP(address)
	if err != nil {
		return c.httpConn, err
	}
	return conn, nil
}

// firstOf returns the first error: the cause of a failure is usually the same for most connections.
func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// connection is the loop of one connection. The limit of time is checked before each request; a request that was sent
// is awaited.
func (r *tablesRun) connection(address string, seed uint64, began time.Time) (*outcome, error) {
	o := &outcome{Latency: newHistogram()}
	key, err := base64.StdEncoding.DecodeString(azuretables.DevelopmentKey)
	if err != nil {
		return o, err
	}
	conn, err := dialHTTP(address)
	if err != nil {
		return o, err
	}
	c := &tablesConn{httpConn: conn, key: key, host: address}
	defer func() { c.close() }()
	rng := rand.New(rand.NewPCG(seed, uint64(began.UnixNano())))
	// A number is taken even when the time is over.
	for r.issued.Add(1) <= r.ops && time.Since(began) < r.limit {
		// Before the clock starts: the latency is the server's.
		r.op.build(c, rng)
		sent := time.Now()
		status, body, err := c.do(c.request)
		if err != nil && o.Errors < brokenMax {
			// Azurite closes connections if it is too busy to answer.
			o.Errors++
			if c.httpConn, err = c.again(address); err == nil {
				continue
			}
		}
		if err != nil {
			return o, fmt.Errorf("bench: %s: %w", address, err)
		}
		// These three count as refused.
		if status == 500 || status == 503 || status == 404 {
			o.Errors++ // an overloaded server may return an error, or may have lost the row; only successes count
			continue
		}
		if status != r.op.status {
			return o, fmt.Errorf("bench: %.200s: status %d: %.300s", c.request, status, body)
		}
		if r.op.check != nil {
			if err := r.op.check(body); err != nil {
				return o, err
			}
		}
		o.Ops++
		// Only successful requests have a latency.
		o.Latency.RecordValue(time.Since(sent).Microseconds())
	}
	return o, nil
}
