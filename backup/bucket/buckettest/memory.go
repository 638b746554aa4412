// Package buckettest tests implementations of package bucket, and contains one in memory whose requests can fail.
package buckettest

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"cqld/backup/bucket"
)

// Memory is a bucket in memory. It is strongly consistent, and an object appears as a whole, as in the services. Its
// methods may be called concurrently.
type Memory struct {
	// Fault returns what happens to the request of an operation (stat, list, read, write, remove); nil means that no
	// request fails. It is called without locks, in the goroutine of the request.
	Fault func(operation, name string) Fault
	// Now is the clock of the service.
	Now   func() time.Time
	state *state
}

// state is what views of a bucket share.
type state struct {
	mu      sync.Mutex
	objects map[string]object
}

// object is an object of Memory. It is not modified.
type object struct {
	content  []byte
	modified time.Time
}

// Fault is what happens to a request. The zero value lets it succeed.
type Fault struct {
	Err error
	// Executed means that Err is returned after the request was executed: its answer was lost.
	Executed bool
	// Cut ends the content of a read after half of its bytes, with Err.
	Cut bool
}

// NewMemory returns an empty bucket.
func NewMemory() *Memory { return &Memory{Now: time.Now, state: &state{objects: map[string]object{}}} }

// View returns the same bucket with other faults.
func (m *Memory) View(fault func(operation, name string) Fault) *Memory {
	return &Memory{fault, m.Now, m.state}
}

// Clone returns a bucket with the same objects, whose requests succeed.
func (m *Memory) Clone() *Memory {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	return &Memory{Now: m.Now, state: &state{objects: maps.Clone(m.state.objects)}}
}

// request executes a request with its fault. A request of a context that has ended is not sent, so a test that cancels
// an operation finds no effect of its later requests.
func (m *Memory) request(ctx context.Context, operation, name string, execute func(Fault) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var f Fault
	if m.Fault != nil {
		f = m.Fault(operation, name)
	}
	// The service has refused the request, or has not received it.
	if f.Err != nil && !f.Executed && !f.Cut {
		return f.Err
	}
	if err := execute(f); err != nil || f.Cut {
		return err
	}
	return f.Err
}

// find returns an object.
func (m *Memory) find(name string) (object, error) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	o, ok := m.state.objects[name]
	if !ok {
		return o, &fs.PathError{Op: "find", Path: name, Err: fs.ErrNotExist}
	}
	return o, nil
}

// Stat implements bucket.Bucket.
func (m *Memory) Stat(ctx context.Context, name string) (a bucket.Attributes, err error) {
	err = m.request(ctx, "stat", name, func(Fault) error {
		o, err := m.find(name)
		a = bucket.Attributes{Size: int64(len(o.content)), Modified: o.modified}
		return err
	})
	return a, err
}

// List implements bucket.Bucket.
func (m *Memory) List(ctx context.Context, prefix string, _ int) (out []string, err error) {
	err = m.request(ctx, "list", prefix, func(Fault) error {
		m.state.mu.Lock()
		defer m.state.mu.Unlock()
		for name := range m.state.objects {
			// What follows the slash belongs to a directory, which is listed once.
			if rest, ok := strings.CutPrefix(name, prefix); ok {
				part, _, _ := strings.Cut(rest, "/")
				out = append(out, part)
			}
		}
		slices.Sort(out)
		out = slices.Compact(out)
		return nil
	})
	return out, err
}

// Read implements bucket.Bucket.
func (m *Memory) Read(ctx context.Context, name string, at, n int64) (r io.ReadCloser, size int64, err error) {
	err = m.request(ctx, "read", name, func(f Fault) error {
		// An object that is replaced or removed meanwhile is read to its end.
		o, err := m.find(name)
		if err != nil {
			return err
		}
		size = int64(len(o.content))
		part := o.content[min(at, size):]
		if n > 0 {
			part = part[:min(n, int64(len(part)))]
		}
		r = io.NopCloser(bytes.NewReader(part))
		if f.Cut {
			r = io.NopCloser(io.MultiReader(bytes.NewReader(part[:len(part)/2]), broken{f.Err}))
		}
		return nil
	})
	return r, size, err
}

// broken is a reader that fails.
type broken struct{ err error }

// Read implements io.Reader.
func (b broken) Read([]byte) (int, error) { return 0, b.err }

// Write implements bucket.Bucket.
func (m *Memory) Write(ctx context.Context, name string, c *bucket.Content) error {
	return m.request(ctx, "write", name, func(Fault) error {
		r, err := c.Open()
		if err != nil {
			return err
		}
		defer r.Close()
		b, err := io.ReadAll(r)
		// A request whose sender has gone is not complete.
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		m.state.mu.Lock()
		defer m.state.mu.Unlock()
		m.state.objects[name] = object{b, m.Now()}
		return nil
	})
}

// Remove implements bucket.Bucket.
func (m *Memory) Remove(ctx context.Context, name string) error {
	return m.request(ctx, "remove", name, func(Fault) error {
		m.state.mu.Lock()
		defer m.state.mu.Unlock()
		delete(m.state.objects, name)
		return nil
	})
}
