package bucket_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cqld/backup/bucket"
	"cqld/backup/bucket/buckettest"
)

// TestMemoryConforms tests the bucket that other tests use.
func TestMemoryConforms(t *testing.T) { buckettest.Conform(t, buckettest.NewMemory(), "p/", 10) }

// faults returns errors of services and connections, and whether they may pass.
func faults() map[string]struct {
	err    error
	passes bool
} {
	type fault = struct {
		err    error
		passes bool
	}
	return map[string]fault{
		"forbidden":   {&bucket.Refusal{Status: 403, Code: "AccessDenied"}, false},
		"bad request": {&bucket.Refusal{Status: 400, Code: "InvalidRequest"}, false},
		"missing":     {&fs.PathError{Op: "read", Err: fs.ErrNotExist}, false},
		"internal":    {&bucket.Refusal{Status: 500, Code: "InternalError"}, true},
		"slow down":   {&bucket.Refusal{Status: 503, Code: "SlowDown"}, true},
		"too many":    {&bucket.Refusal{Status: 429, Code: "TooManyRequests"}, true},
		"connection":  {io.ErrUnexpectedEOF, true},
	}
}

// TestRequestsAreRepeatedWithABound fails requests twice, and always. Only what may pass is repeated, and for a bounded
// time.
func TestRequestsAreRepeatedWithABound(t *testing.T) {
	for what, fault := range faults() {
		for operation, request := range map[string]func(context.Context, *bucket.Repeated) error{
			"stat": func(ctx context.Context, r *bucket.Repeated) error { _, err := r.Stat(ctx, "x"); return err },
			"list": func(ctx context.Context, r *bucket.Repeated) error { _, err := r.List(ctx, "", 0); return err },
			"read": func(ctx context.Context, r *bucket.Repeated) error {
				return r.ReadAt(ctx, "x", make([]byte, 3), 1)
			},
			"write": func(ctx context.Context, r *bucket.Repeated) error {
				return r.Write(ctx, "x", bucket.Bytes([]byte("content")))
			},
			"remove": func(ctx context.Context, r *bucket.Repeated) error { return r.Remove(ctx, "x") },
		} {
			synctest.Test(t, func(t *testing.T) {
				m := buckettest.NewMemory()
				r := bucket.Repeat(m)
				if err := r.Write(t.Context(), "x", bucket.Bytes([]byte("content"))); err != nil {
					t.Fatal(err)
				}
				for _, failures := range []int{2, 1000} {
					sent := 0
					m.Fault = func(string, string) buckettest.Fault {
						if sent++; sent <= failures {
							return buckettest.Fault{Err: fault.err, Executed: sent%2 == 0}
						}
						return buckettest.Fault{}
					}
					began := time.Now()
					err := request(t.Context(), r)
					// A removal that finds nothing has succeeded.
					fails := !(fault.passes && failures == 2) && !(operation == "remove" && what == "missing")
					if (err != nil) != fails || err != nil && !errors.Is(err, fault.err) {
						t.Errorf("%s of %s, %d failures: %v", operation, what, failures, err)
					}
					if !fault.passes && sent != 1 || sent > 10 || time.Since(began) > time.Minute {
						t.Errorf("%s of %s: %d requests in %v", operation, what, sent, time.Since(began))
					}
				}
			})
		}
	}
}

// TestCancelledRequestsAreNotRepeated cancels requests in their pauses.
func TestCancelledRequestsAreNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := buckettest.NewMemory()
		m.Fault = func(string, string) buckettest.Fault {
			return buckettest.Fault{Err: &bucket.Refusal{Status: 503}}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := bucket.Repeat(m).Stat(ctx, "x")
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestReadingContinuesWhereItsConnectionFailed cuts the answers of requests. Each half of the rest arrives.
func TestReadingContinuesWhereItsConnectionFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := buckettest.NewMemory()
		r := bucket.Repeat(m)
		content := strings.Repeat("0123456789", 1000)
		if err := r.Write(t.Context(), "x", bucket.Bytes([]byte(content))); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{io.EOF, io.ErrUnexpectedEOF, errors.New("connection reset")} {
			cuts := 0
			m.Fault = func(string, string) buckettest.Fault {
				if cuts++; cuts%4 == 0 {
					return buckettest.Fault{}
				}
				return buckettest.Fault{Cut: true, Err: err}
			}
			o, size, err := r.Open(t.Context(), "x")
			if err != nil || size != int64(len(content)) {
				t.Fatal(size, err)
			}
			got, err := io.ReadAll(o)
			if err != nil || string(got) != content || o.Close() != nil {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		}
		// An object that was replaced meanwhile is not mixed with the former one.
		m.Fault = func(string, string) buckettest.Fault { return buckettest.Fault{Cut: true, Err: io.EOF} }
		o, _, err := r.Open(t.Context(), "x")
		if err == nil {
			_, err = io.ReadFull(o, make([]byte, 5000))
		}
		m.Fault = nil
		if err == nil {
			err = r.Write(t.Context(), "x", bucket.Bytes([]byte(strings.Repeat("z", 9000))))
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(o); err == nil {
			t.Errorf("%d bytes of another object were read", len(got))
		}
	})
}

// TestSourcesThatFailAreNotRepeated fails the reading of a content: no repetition helps.
func TestSourcesThatFailAreNotRepeated(t *testing.T) {
	broken := errors.New("input/output error")
	opened := 0
	c := bucket.Bytes([]byte("content"))
	c.Source = func() (io.ReadCloser, error) { opened++; return nil, broken }
	err := bucket.Repeat(buckettest.NewMemory()).Write(t.Context(), "x", c)
	if !errors.Is(err, broken) || opened != 1 {
		t.Errorf("%v, opened %d times", err, opened)
	}
}
