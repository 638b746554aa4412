package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"time"
)

// Repeated repeats requests of a bucket that have failed for reasons that may pass: an answer such as 500, 503 or 429,
// or none. All requests may be repeated: writing the same content again changes nothing, and a removal ignores an
// object that does not exist.
type Repeated struct {
	bucket Bucket
	pause  Pause
}

// Pause waits before a request is repeated, for about d, or until the context ends, whose error it returns.
type Pause func(ctx context.Context, d time.Duration) error

// Repeat returns a bucket that repeats requests, with a bound.
func Repeat(b Bucket) *Repeated { return RepeatAfter(b, pause) }

// RepeatAfter is Repeat with pauses that a simulation determines.
func RepeatAfter(b Bucket, p Pause) *Repeated { return &Repeated{b, p} }

// Stat returns the properties of an object.
func (r *Repeated) Stat(ctx context.Context, name string) (a Attributes, err error) {
	err = r.repeat(ctx, func() error { a, err = r.bucket.Stat(ctx, name); return err })
	return a, err
}

// List returns what Bucket.List returns. After a failure, the list begins again.
func (r *Repeated) List(ctx context.Context, prefix string, max int) (names []string, err error) {
	err = r.repeat(ctx, func() error { names, err = r.bucket.List(ctx, prefix, max); return err })
	return names, err
}

// Write writes an object.
func (r *Repeated) Write(ctx context.Context, name string, c *Content) error {
	if c.Size > ObjectBytesMax {
		return fmt.Errorf("the file has %d bytes, more than the %d of an object", c.Size, int64(ObjectBytesMax))
	}
	return r.repeat(ctx, func() error { return r.bucket.Write(ctx, name, c) })
}

// Remove removes an object, if it exists.
func (r *Repeated) Remove(ctx context.Context, name string) error {
	err := r.repeat(ctx, func() error { return r.bucket.Remove(ctx, name) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ReadAt fills b with the bytes of an object from position at.
func (r *Repeated) ReadAt(ctx context.Context, name string, b []byte, at int64) error {
	// A range of no bytes is not valid in HTTP.
	if len(b) == 0 {
		return nil
	}
	return r.repeat(ctx, func() error {
		part, _, err := r.bucket.Read(ctx, name, at, int64(len(b)))
		if err != nil {
			return err
		}
		_, err = io.ReadFull(part, b)
		return errors.Join(err, part.Close())
	})
}

// Open opens an object for reading from its beginning. The caller closes it.
func (r *Repeated) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	o := &opened{ctx: ctx, from: r, name: name}
	if err := r.repeat(ctx, o.open); err != nil {
		return nil, 0, err
	}
	return o, o.size, nil
}

// opened is an object that is read to its end. If its connection fails, it is opened again where it failed.
type opened struct {
	ctx  context.Context
	from *Repeated
	name string
	size int64
	at   int64
	body io.ReadCloser // nil before open, and after a failure
}

// open sends a request for the bytes that are not read yet.
func (o *opened) open() error {
	body, size, err := o.from.bucket.Read(o.ctx, o.name, o.at, 0)
	if err != nil {
		return err
	}
	// Readers compare hashes, but a position in another object has no meaning.
	if o.at > 0 && size != o.size {
		return errors.Join(errChanged, body.Close())
	}
	o.body, o.size = body, size
	return nil
}

// Read implements io.Reader.
func (o *opened) Read(b []byte) (n int, err error) {
	if o.at == o.size {
		return 0, io.EOF
	}
	err = o.from.repeat(o.ctx, func() error {
		if o.body == nil {
			if err := o.open(); err != nil {
				return err
			}
		}
		n, err = o.body.Read(b)
		if n > 0 || err == nil {
			return nil
		}
		// The end before the size is a failure of the connection, too.
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		err = errors.Join(err, o.body.Close())
		o.body = nil
		return err
	})
	o.at += int64(n)
	return n, err
}

// Close implements io.Closer.
func (o *opened) Close() error {
	if o.body == nil {
		return nil
	}
	return o.body.Close()
}

// repeat calls f until it succeeds, has failed for a reason that does not pass, or has failed attemptsMax times. It
// returns the last error.
func (r *Repeated) repeat(ctx context.Context, f func() error) error {
	delay := delayMin
	for attempt := 1; ; attempt++ {
		err := f()
		// The error of a context that has ended is its own: libraries wrap it in many ways.
		if ended := context.Cause(ctx); err != nil && ended != nil {
			return ended
		}
		if err == nil || attempt == attemptsMax || !passes(err) {
			return err
		}
		if err := r.pause(ctx, delay); err != nil {
			return err
		}
		delay = min(2*delay, delayMax)
	}
}

// pause is the Pause of production. Nodes that were refused at the same time must not return at the same time.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d/2 + rand.N(d/2))
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		timer.Stop()
		return context.Cause(ctx)
	}
}

// passes reports whether the reason of an error may pass.
func passes(err error) bool {
	var refusal *Refusal
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errChanged), errors.As(err, new(*sourceError)),
		errors.As(err, new(*CredentialsError)):
		return false
	case errors.As(err, &refusal):
		return refusal.temporary()
	}
	return true
}
