package buckettest

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"

	"cqld/backup/bucket"
)

// RefuseEarly writes large objects to a bucket whose service answers 403 without reading them. It tests three
// properties, which the race detector extends to the fields of the content:
//
//  1. The error is the answer, or says that the service cannot be reached: a service that closes the connection after
//     its answer may be seen to close it first. It is never an error of the content.
//  2. The content is closed as often as it was opened. A node that is refused for an hour must not run out of files.
//  3. The library may close the content while the transport still reads it. Neither of them panics.
func RefuseEarly(t *testing.T, b bucket.Bucket) {
	t.Helper()
	// More than the buffers of the connection, so that the request cannot be sent as a whole.
	c := bucket.Bytes(make([]byte, 16<<20))
	source := c.Source
	var open sync.WaitGroup
	c.Source = func() (io.ReadCloser, error) {
		r, err := source()
		open.Add(1)
		return &counted{ReadCloser: r, closed: sync.OnceFunc(open.Done)}, err
	}
	for range 5 {
		err := b.Write(t.Context(), "x", c)
		var refusal *bucket.Refusal
		if answered := errors.As(err, &refusal); err == nil || answered && refusal.Status != http.StatusForbidden {
			t.Errorf("an object that was refused: %v", err)
		}
	}
	// The transport may close the content after the request has ended. The test's timeout bounds the wait.
	open.Wait()
}

// counted is a content that reports its first Close.
type counted struct {
	io.ReadCloser
	closed func()
}

// Close implements io.Closer.
func (c *counted) Close() error {
	c.closed()
	return c.ReadCloser.Close()
}
