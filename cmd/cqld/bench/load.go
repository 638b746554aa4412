package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cqld/azuretables/client"
)

// load is a partition and the requests sent to it. It is safe for concurrent use once the table is loaded.
type load struct {
	// nodes are the clients of the URLs, in their order; requests are spread over them by a counter modulo their
	// number.
	nodes            []*client.Client
	table, partition string
	rows             int // rows that exist before the steps
	// reads is a percentage from 0 to 100, batch the number of entities of a write from 1 to batchMax.
	reads, batch int
	// payload consists of letters only, so that it needs no escaping in JSON.
	payload string
	backoff backoff
	// retries is the number of attempts after the first.
	retries int

	written atomic.Int64 // number of rows written by steps, for their keys
}

// step is the result with one number of requests in flight. A request counts once in requests or failed, and for each
// refused attempt in refused. Its fields are only read after the workers have ended.
type step struct {
	inFlight int
	// took includes the requests that were in progress at the end.
	took time.Duration
	mu   sync.Mutex // guards the following fields while the step runs
	// entities are counted for successful requests only.
	entities int
	requests int
	refused  int // 503, 500, 504
	failed   int
	first    error // first failure
	// latency holds one value for each successful request, up to samplesMax, of the last attempt without the waits.
	latency []time.Duration
}

// close closes the clients' idle connections. All requests have ended.
func (l *load) close() {
	for _, n := range l.nodes {
		n.Close()
	}
}

// ask sends a request to a node, with its own timeout. node is any number from 0; it selects a client modulo their
// number. The response has been read completely when it returns.
func (l *load) ask(ctx context.Context, node int, r client.Request) (*client.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	return l.nodes[node%len(l.nodes)].Do(ctx, r)
}

// create creates the table. It fails if the table exists, so the command never writes into someone else's table.
func (l *load) create(ctx context.Context) error {
	body, err := json.Marshal(map[string]string{"TableName": l.table})
	if err != nil {
		return err
	}
	// 201 returns the table, 204 nothing; the server chooses by the Prefer header.
	if err := l.insist(ctx, client.Request{Method: "POST", Path: "/Tables", Body: body}, 201, 204); err != nil {
		return fmt.Errorf("bench: create table %s: %w", l.table, err)
	}
	return nil
}

// dropTimeout covers two waits of the default back-off.
const dropTimeout = 3 * time.Minute

// drop deletes the table. It uses its own context, because the command's context ends when the command is interrupted.
func (l *load) drop() error {
	ctx, cancel := context.WithTimeout(context.Background(), dropTimeout)
	defer cancel()
	if err := l.insist(ctx, client.Request{Method: "DELETE", Path: "/Tables('" + l.table + "')"}, 204); err != nil {
		return fmt.Errorf("bench: delete table %s: %w", l.table, err)
	}
	return nil
}

// insist retries a request while the server is busy, because it may still be processing requests of the last step. want
// are the status codes that count as success. Connection errors are not retried. The request is not part of a step, and
// goes to the first node.
func (l *load) insist(ctx context.Context, r client.Request, want ...int) error {
	for retry := 1; ; retry++ {
		resp, err := l.ask(ctx, 0, r)
		if err == nil {
			err = resp.Err(want...)
		}
		// Without a response, the status is unknown.
		if err == nil || resp == nil || !again(resp.Status) || retry > l.retries {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(l.backoff.wait(retry)):
		}
	}
}

// fill inserts the first rows in transactions. It retries those that a server with a throughput target refuses. Keys
// are the numbers from 0 to rows-1. Batches are sent one after the other, each to the next node. A failure leaves the
// rows that were loaded; the caller drops the table.
func (l *load) fill(ctx context.Context, rows int) error {
	for from := 0; from < rows; from += batchMax {
		var changes []client.Change
		for i := from; i < min(from+batchMax, rows); i++ {
			changes = append(changes, l.upsert(i))
		}
		// Each batch has its own step, which shows whether it succeeded. These requests count in no result.
		s := &step{}
		// The number of the batch selects the node.
		l.attempt(ctx, s, from/batchMax, client.Transaction(l.table, changes), len(changes))
		if s.entities == 0 {
			return fmt.Errorf("bench: load the partition: %w", errors.Join(s.first, ctx.Err()))
		}
	}
	return nil
}

// rowKey returns the key of a row. The number comes first, with leading zeros, so keys are in the order of the numbers.
// For example, 00000042__John__M__55. Its length is close to the keys of a real application.
func rowKey(i int) string { return fmt.Sprintf("%08d__John__M__55", i) }

// upsert returns the change that inserts or replaces row i. It has no If-Match header, so it succeeds in both cases.
// The body has about 40 bytes besides the payload.
func (l *load) upsert(i int) client.Change {
	body := fmt.Appendf(nil, `{"Bib":%d,"Finished":false,"Payload":"%s"}`, i, l.payload)
	return client.Change{Method: "PUT", PartitionKey: l.partition, RowKey: rowKey(i), Body: body}
}

// request returns the next request of the load, and the number of its entities. Reads choose a row that fill has
// written, so they always find it. Writes add rows with new keys and never conflict. The shares are random for each
// request, so a short step may deviate from them.
func (l *load) request() (client.Request, int) {
	if rand.IntN(100) < l.reads {
		return client.Request{Method: "GET", Path: client.EntityPath(l.table, l.partition, rowKey(rand.IntN(l.rows)))},
			1
	}
	var changes []client.Change
	for range l.batch {
		changes = append(changes, l.upsert(l.rows+int(l.written.Add(1))))
	}
	// A single entity is sent without the transaction's envelope, as clients do.
	if l.batch == 1 {
		c := changes[0]
		return client.Request{Method: c.Method, Path: client.EntityPath(l.table, c.PartitionKey, c.RowKey),
			Body: c.Body}, 1
	}
	return client.Transaction(l.table, changes), l.batch
}

// step keeps inFlight requests in progress for length. It is a closed loop: each worker sends its next request when the
// last one is answered, so the server sets the rate. It therefore never sends more than the server answers: the latency
// that it measures has no waiting time of requests that would have been due (coordinated omission), and is the latency
// of a client that waits.
func (l *load) step(ctx context.Context, inFlight int, length time.Duration) *step {
	s := &step{inFlight: inFlight}
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	began := time.Now()
	var workers sync.WaitGroup
	// Workers start at different nodes and take them in turn.
	for i := range inFlight {
		workers.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				r, entities := l.request()
				l.attempt(ctx, s, n, r, entities)
			}
		})
	}
	workers.Wait()
	s.took = time.Since(began)
	return s
}

// attempt sends a request, with retries, and records its final response. A request that the end of the step interrupts
// does not count. node selects the client for all attempts. A success counts entities. The latency is the last
// attempt's, without back-off.
func (l *load) attempt(ctx context.Context, s *step, node int, r client.Request, entities int) {
	for retry := 0; ; {
		began := time.Now()
		resp, err := l.ask(ctx, node, r)
		took := time.Since(began)
		// The end of the step interrupted the request, which does not mean that the server failed.
		if ctx.Err() != nil {
			return
		}
		if !s.note(resp, err, took, entities) {
			return
		}
		// The failure is counted once, with the last response.
		if retry++; retry > l.retries {
			s.fail(fmt.Errorf("bench: failed after %d retries: %w", l.retries, resp.Err()))
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(l.backoff.wait(retry)):
		}
	}
}

// note counts a response and reports whether to retry. A refusal counts in refused, a wrong response or an error in
// failed. latencies beyond samplesMax are dropped.
func (s *step) note(resp *client.Response, err error, took time.Duration, entities int) (retry bool) {
	if err != nil {
		s.fail(err)
		return false
	}
	// The caller retries with the same request, so that no row is lost.
	if again(status(resp)) {
		s.mu.Lock()
		s.refused++
		s.mu.Unlock()
		return true
	}
	if err := answered(resp, entities); err != nil {
		s.fail(err)
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	s.entities += entities
	// The first values are kept.
	if len(s.latency) < samplesMax {
		s.latency = append(s.latency, took)
	}
	return false
}

// status returns the status of the response, or the status of a refusal inside a transaction's response. A transaction
// that is refused as a whole has status 202 with one part.
func status(resp *client.Response) int {
	if resp.Status == 202 {
		if all := resp.Statuses(); len(all) == 1 {
			return all[0]
		}
	}
	return resp.Status
}

// samplesMax limits the number of latencies recorded in a step: 8 MiB. After that, a step's quantiles are of its first
// part only.
const samplesMax = 1 << 20

// answered returns nil for a successful response to a read or a write, or to a transaction with one response for each
// change. The parts of a transaction have status 204, because the client prefers responses without content.
func answered(resp *client.Response, entities int) error {
	if err := resp.Err(200, 202, 204); err != nil || resp.Status != 202 {
		return err
	}
	if all := resp.Statuses(); len(all) != entities || all[0] != 204 {
		return fmt.Errorf("bench: a transaction returned %v: %.300s", all[:min(len(all), 1)], resp.Body)
	}
	return nil
}

// fail counts a failed request and keeps the first error.
func (s *step) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed++
	if s.first == nil {
		s.first = err
	}
}

// rate returns the number of entities per second. The bound avoids a division by zero for a step that ended at once.
func (s *step) rate() float64 { return float64(s.entities) / max(s.took.Seconds(), 1e-9) }

// quantile sorts the latencies and returns their q-quantile, or 0 if there are none. q is between 0 and 1. It is called
// after all workers have ended. It selects an existing value and does not interpolate: with 100 values, the
// 0.99-quantile is the 99th.
func (s *step) quantile(q float64) time.Duration {
	if len(s.latency) == 0 {
		return 0
	}
	slices.Sort(s.latency)
	return s.latency[int(q*float64(len(s.latency)-1))]
}

// print writes one line of the curve: requests in flight, rates, the share of target, latencies in milliseconds, and
// the numbers of refusals and failures. For example, under the header of the command:
//
//	in flight   entities/s  of target   requests/s    p50 ms    p99 ms   refused   failed
//	        8         1589        79%         1589      4.61     12.10         0        0
func (s *step) print(out io.Writer, target int) {
	ms := func(q float64) float64 { return float64(s.quantile(q).Microseconds()) / 1000 }
	fmt.Fprintf(out, "%9d %12.0f %9.0f%% %12.0f %9.2f %9.2f %9d %8d\n", s.inFlight, s.rate(),
		100*s.rate()/float64(target),
		float64(s.requests)/max(s.took.Seconds(), 1e-9), ms(0.5), ms(0.99), s.refused, s.failed)
}
