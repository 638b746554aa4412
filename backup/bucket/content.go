package bucket

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
)

// Content is what is written as an object.
type Content struct {
	Size   int64
	SHA256 string // in hexadecimal digits
	// Source opens the bytes, each time from the beginning. It may be called more than once.
	Source func() (io.ReadCloser, error)
}

// Bytes returns a content in memory.
func Bytes(b []byte) *Content {
	sum := sha256.Sum256(b)
	return &Content{int64(len(b)), hex.EncodeToString(sum[:]), func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b)), nil
	}}
}

// sourceError is an error of reading a content. The service is not its reason.
type sourceError struct{ error }

// Unwrap returns the reason.
func (s *sourceError) Unwrap() error { return s.error }

// errChanged means that a content is not the announced one.
var errChanged = errors.New("the file has changed while it was read")

// Open returns a reader of exactly Size bytes, which the caller closes. It withholds the last bytes of a content with
// another hash: the names of objects are promises about their contents, and a request without its last bytes is not
// executed.
func (c *Content) Open() (io.ReadCloser, error) {
	r, err := c.Source()
	if err != nil {
		return nil, &sourceError{err}
	}
	return &verified{ReadCloser: r, left: c.Size, sum: c.SHA256, hash: sha256.New()}, nil
}

// Checksum returns another hash of the content, which a service compares when it receives the content. It reads the
// content once.
func (c *Content) Checksum(h hash.Hash) ([]byte, error) {
	r, err := c.Open()
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(h, r)
	return h.Sum(nil), errors.Join(err, r.Close())
}

// verified compares the hash of what is read before it returns the last bytes.
type verified struct {
	io.ReadCloser
	left int64
	sum  string
	hash hash.Hash
	// compared is set when the last byte was compared, also if there is none.
	compared bool
}

// Read implements io.Reader.
func (v *verified) Read(b []byte) (int, error) {
	if v.left == 0 {
		return 0, v.compare()
	}
	n, err := v.ReadCloser.Read(b[:min(int64(len(b)), v.left)])
	v.hash.Write(b[:n])
	v.left -= int64(n)
	if v.left == 0 {
		if err := v.compare(); !errors.Is(err, io.EOF) {
			return 0, err
		}
		return n, nil
	}
	if errors.Is(err, io.EOF) {
		return n, errChanged
	}
	if err != nil {
		return n, &sourceError{err}
	}
	return n, nil
}

// compare returns io.EOF if the whole content had the hash.
func (v *verified) compare() error {
	if !v.compared && hex.EncodeToString(v.hash.Sum(nil)) != v.sum {
		return errChanged
	}
	v.compared = true
	return io.EOF
}
