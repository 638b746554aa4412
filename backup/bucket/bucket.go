package bucket

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Bucket is a container of objects. Names have slashes. Implementations send one request for each call (List sends one
// for each page) and do not repeat it. The methods may be called concurrently.
//
// An error is fs.ErrNotExist if there is no object with the name, a *Refusal if the service has answered, and a
// *CredentialsError if the node has none that are accepted. Any other error means that the request or its answer was
// lost. Errors contain no credentials.
type Bucket interface {
	// Stat returns the properties of an object.
	Stat(ctx context.Context, name string) (Attributes, error)
	// List returns the parts of names up to the next slash after a prefix, in any order and without repetitions. It may
	// end when it has max of them, unless max is 0.
	List(ctx context.Context, prefix string, max int) ([]string, error)
	// Read returns the content from position at to its end, or n bytes if n > 0, and the size of the whole object. The
	// caller closes it.
	Read(ctx context.Context, name string, at, n int64) (r io.ReadCloser, size int64, err error)
	// Write writes an object, and replaces one with the same name. The new content is visible as a whole or not at all.
	Write(ctx context.Context, name string, c *Content) error
	// Remove removes an object. One that does not exist is an error, or is not.
	Remove(ctx context.Context, name string) error
}

// Attributes are the properties of an object. A sweep keeps objects that were modified less than the grace ago, by the
// clock of the node: it must not differ from the clock of the service by more than the grace.
type Attributes struct {
	Size     int64
	Modified time.Time // by the clock of the service
}

// Refusal is an answer of a service that is not a success.
type Refusal struct {
	Status  int    // of HTTP
	Code    string // of the service
	Message string // for users
}

// Error implements error.
func (r *Refusal) Error() string {
	text := r.Message
	if text == "" {
		text = http.StatusText(r.Status)
	}
	// Messages are sentences of a service, some with several lines.
	return fmt.Sprintf("the object store answers %d %s: %.300q", r.Status, r.Code, text)
}

// Full reports whether the service has refused a request because there is no space, or because a quota is used up.
func (r *Refusal) Full() bool {
	switch r.Code {
	// Of Ceph, Google, and MinIO.
	case "QuotaExceeded", "quotaExceeded", "XMinioAdminBucketQuotaExceeded", "XMinioStorageFull":
		return true
	}
	return r.Status == http.StatusInsufficientStorage
}

// CredentialsError means that the node has no credentials, or ones for which it gets no token. No request was sent to
// the service, and none is repeated.
type CredentialsError struct{ Reason string } // for users

// Error implements error.
func (c *CredentialsError) Error() string { return c.Reason }

// temporary reports whether the same request may succeed later: the service has failed, or asks for slower requests. An
// answer that says that the request is wrong, or not permitted, is final.
func (r *Refusal) temporary() bool {
	if r.Full() {
		return false
	}
	return r.Status >= http.StatusInternalServerError && r.Status != http.StatusNotImplemented ||
		r.Status == http.StatusTooManyRequests || r.Status == http.StatusRequestTimeout
}
