package backups

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"cqld/backup/bucket"
	"cqld/backup/bucket/buckettest"
	"cqld/simulation/kernel"
)

// store is what all processes use, with the faults of its requests: a bucket, or the directory of a machine.
type store struct {
	memory  *buckettest.Memory
	machine *machine // nil for a bucket
	// random draws the faults of small files, the outages, and the pauses of restorations.
	random *kernel.Stream
	// healed ends the faults.
	healed func() bool
	count  func(string)
	kernel *kernel.Kernel
	outage outage
}

// outage is a time in which requests of one kind for objects fail or wait. Faults of these requests are not drawn: the
// hashes of files, and therefore the number of requests, depend on the time of day, which Pebble writes into files.
type outage struct {
	operation string
	fault     buckettest.Fault
	slow      bool
	until     time.Duration
}

// strike begins an outage, which replaces the one before. With lost answers, requests are executed and fail: a client
// that repeats them finds what it has written itself.
func (s *store) strike() {
	r := s.random
	s.outage = outage{operation: []string{"stat", "read", "write", "remove", "list"}[r.Intn(5)],
		until: s.kernel.Now() + r.Between(50*time.Millisecond, slowMax)}
	switch r.Intn(4) {
	case 0:
		s.outage.slow = true
	case 1:
		s.outage.fault = buckettest.Fault{Err: errStore}
	case 2:
		s.outage.fault = buckettest.Fault{Err: errStore, Executed: true}
	case 3:
		s.outage.operation, s.outage.fault = "read", buckettest.Fault{Err: errStore, Cut: true}
	}
}

// lose removes the first object without a request of a client.
func (s *store) lose() {
	ctx := context.Background()
	for name := "objects/"; ; name += "/" {
		// Errors are impossible without faults. The names have two levels.
		below, _ := s.memory.List(ctx, name, 0)
		if len(below) == 0 {
			_ = s.memory.Remove(ctx, strings.TrimSuffix(name, "/"))
			return
		}
		name += below[0]
	}
}

// object waits for the end of a slow outage, and returns the fault of a request for an object.
func (r requests) object(ctx context.Context, operation string) (f buckettest.Fault, err error) {
	s := r.store
	o := s.outage
	if s.healed() || o.operation != operation || s.kernel.Now() >= o.until {
		return f, ctx.Err()
	}
	s.count("requests for objects in an outage")
	if o.slow {
		return f, r.process.sleep(ctx, o.until-s.kernel.Now())
	}
	return o.fault, ctx.Err()
}

// The chances of faults, in a thousand requests for notes, manifests and lists, whose number does not depend on hashes.
// A client repeats a request up to seven times, so that few operations fail for this reason alone.
const (
	refused = 25 // not executed
	lost    = 25 // executed, without an answer
	cut     = 25 // the content ends early
	slow    = 30
	// slowMax is the delay of a slow request; others take up to fastMax.
	slowMax = 2 * time.Second
	fastMax = 4 * time.Millisecond
)

// errStore is the reason of the faults.
var errStore = errors.New("the store does not answer")

// requests are the requests of a process. They implement bucket.Bucket, and end with the process: a request that was
// not executed before a kill is never executed.
type requests struct {
	store   *store
	process *Process
}

// begin decides about a request before it is executed. It waits for the service, and returns the bucket with the fault
// of the request.
func (r requests) begin(ctx context.Context, operation, name string) (*buckettest.Memory, error) {
	s := r.store
	if strings.HasPrefix(name, "objects/") {
		f, err := r.object(ctx, operation)
		return s.memory.View(func(string, string) buckettest.Fault { return f }), err
	}
	if err := r.process.sleep(ctx, s.delay()); err != nil {
		return nil, err
	}
	f, n := buckettest.Fault{}, s.random.Intn(1000)
	switch {
	case s.healed():
	case n < refused:
		f.Err = errStore
	case n < refused+lost:
		f.Err, f.Executed = errStore, true
	case n < refused+lost+cut && operation == "read":
		f.Err, f.Cut = errStore, true
	}
	if f.Err != nil {
		s.count("faults of the store of backups")
	}
	return s.memory.View(func(string, string) buckettest.Fault { return f }), nil
}

// delay draws how long a request takes. It is drawn before the wait, so that requests of other processes do not change
// it.
func (s *store) delay() time.Duration {
	delay := s.random.Between(0, fastMax)
	if s.random.Chance(slow) && !s.healed() {
		delay = s.random.Between(fastMax, slowMax)
	}
	return delay
}

// Stat implements bucket.Bucket.
func (r requests) Stat(ctx context.Context, name string) (bucket.Attributes, error) {
	m, err := r.begin(ctx, "stat", name)
	if err != nil {
		return bucket.Attributes{}, err
	}
	return m.Stat(ctx, name)
}

// List implements bucket.Bucket.
func (r requests) List(ctx context.Context, prefix string, max int) ([]string, error) {
	m, err := r.begin(ctx, "list", prefix)
	if err != nil {
		return nil, err
	}
	return m.List(ctx, prefix, max)
}

// Read implements bucket.Bucket. A part of an object is read by Pebble, possibly in a goroutine of its own, which must
// neither wait nor draw.
func (r requests) Read(ctx context.Context, name string, at, n int64) (io.ReadCloser, int64, error) {
	if n > 0 {
		return r.store.memory.Read(ctx, name, at, n)
	}
	m, err := r.begin(ctx, "read", name)
	if err != nil {
		return nil, 0, err
	}
	return m.Read(ctx, name, at, n)
}

// Write implements bucket.Bucket.
func (r requests) Write(ctx context.Context, name string, c *bucket.Content) error {
	m, err := r.begin(ctx, "write", name)
	if err != nil {
		return err
	}
	return m.Write(ctx, name, c)
}

// Remove implements bucket.Bucket.
func (r requests) Remove(ctx context.Context, name string) error {
	m, err := r.begin(ctx, "remove", name)
	if err != nil {
		return err
	}
	return m.Remove(ctx, name)
}
