package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// objectName returns the name of an object. The first digits make directories of moderate size.
func objectName(hash string) string { return objectsDir + "/" + hash[:2] + "/" + hash }

// Put stores the content that open returns, each time from the beginning, as an object. stored is false if the store
// has it already. pace is called with the number of bytes that were read, and may wait.
func (s *Store) Put(ctx context.Context, open func() (io.ReadCloser, error), pace func(int) error) (o Object,
	stored bool, err error) {
	// The name of an object is its hash, so the content is read twice if it is new.
	if o, err = hash(ctx, open, pace); err != nil {
		return o, false, err
	}
	name := objectName(o.SHA256)
	// Only the size is compared: to read the object would take as long as to store it. Verify compares hashes.
	info, err := s.files.stat(name)
	if err == nil && info.Size() == o.Size {
		return o, false, nil
	}
	if err != nil && !missing(err) {
		return o, false, s.failed("look for "+name, err)
	}
	if err := s.files.write(name, func(w io.Writer) error { return copyObject(ctx, w, o, open, pace) }); err != nil {
		return o, false, s.failed("write "+name, err)
	}
	return o, true, nil
}

// PutBytes is Put for a content in memory, such as the schema. It does not wait.
func (s *Store) PutBytes(ctx context.Context, b []byte) (Object, error) {
	o, _, err := s.Put(ctx, func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b)), nil
	}, func(int) error { return nil })
	return o, err
}

// hash returns the identity of a content, which it reads to the end.
func hash(ctx context.Context, open func() (io.ReadCloser, error), pace func(int) error) (o Object, err error) {
	r, err := open()
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	h := sha256.New()
	// The size is counted while the content is read: a file that grows has another hash, too.
	o.Size, err = io.CopyBuffer(h, &paced{ctx, r, pace}, make([]byte, copyBytes))
	o.SHA256 = hex.EncodeToString(h.Sum(nil))
	return o, err
}

// copyObject copies a content to w. One with another hash is an error, and what was written must be discarded: the name
// of an object is a promise about its content.
func copyObject(ctx context.Context, w io.Writer, o Object, open func() (io.ReadCloser, error),
	pace func(int) error) (err error) {
	r, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	h := sha256.New()
	_, err = io.CopyBuffer(w, io.TeeReader(&paced{ctx, r, pace}, h), make([]byte, copyBytes))
	if err == nil && hex.EncodeToString(h.Sum(nil)) != o.SHA256 {
		err = errors.New("the file has changed while it was read")
	}
	return err
}

// paced reads until its context ends, and reports what it reads. Reads of a directory cannot be cancelled, so the
// context is compared before each of them.
type paced struct {
	ctx  context.Context
	r    io.Reader
	pace func(int) error
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := p.r.Read(b)
	if waited := p.pace(n); waited != nil {
		return n, waited
	}
	return n, err
}

// object returns an object whose hash was compared.
func (s *Store) object(ctx context.Context, o Object) ([]byte, error) {
	b, err := s.files.read(ctx, objectName(o.SHA256), catalogBytesMax)
	if err == nil && sumOf(b) != o.SHA256 {
		err = fmt.Errorf("object %s was damaged or changed", o.SHA256)
	}
	return b, err
}
