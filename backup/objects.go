package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"cqld/backup/bucket"
)

// Put stores the content that open returns, each time from the beginning, as an object. stored is false if the store
// has it already. pace is called with the number of bytes that were read, and may wait.
func (s *Store) Put(ctx context.Context, open func() (io.ReadCloser, error), pace func(int) error) (o Object,
	stored bool, err error) {
	return s.PutChecked(ctx, open, func() error { return nil }, pace)
}

// PutChecked is Put for a content that is stored only if check returns no error. It is called for a new content.
func (s *Store) PutChecked(ctx context.Context, open func() (io.ReadCloser, error), check func() error,
	pace func(int) error) (o Object, stored bool, err error) {
	end, err := s.memory.copy(ctx)
	if err != nil {
		return o, false, err
	}
	defer end()
	// The name of an object is its hash, so the content is read twice if it is new.
	if o, err = hash(ctx, open, pace); err != nil {
		return o, false, err
	}
	name, err := s.files.objectName(ctx, o.SHA256)
	if err != nil {
		return o, false, s.failed("store an object", err)
	}
	// Only the size is compared: to read the object would take as long as to store it. Verify compares hashes.
	info, err := s.files.stat(ctx, name)
	if err == nil && info.Size == o.Size {
		return o, false, nil
	}
	if err != nil && !missing(err) {
		return o, false, s.failed("look for "+name, err)
	}
	// An object that is stored was checked before.
	if err := check(); err != nil {
		return o, false, err
	}
	c := &bucket.Content{Size: o.Size, SHA256: o.SHA256, Source: func() (io.ReadCloser, error) {
		r, err := open()
		if err != nil {
			return nil, err
		}
		return pacedFile{paced{ctx, r, pace}, r}, nil
	}}
	if err := s.files.write(ctx, name, c); err != nil {
		return o, false, s.failed("write "+name, err)
	}
	return o, true, nil
}

// PutAll calls put, which calls Put, for n files, several at a time.
func (s *Store) PutAll(ctx context.Context, n int, put func(ctx context.Context, i int) error) error {
	return parallel(ctx, s.atOnce(putsAtOnce), n, put)
}

// PutBytes is Put for a content in memory, such as the schema. It does not wait.
func (s *Store) PutBytes(ctx context.Context, b []byte) (Object, error) {
	o, _, err := s.Put(ctx, func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b)), nil
	}, unpaced)
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

// pacedFile is paced with the Close of its file.
type pacedFile struct {
	paced
	io.Closer
}

// Read implements io.Reader.
func (p pacedFile) Read(b []byte) (int, error) { return p.paced.Read(b) }

// unpaced does not wait.
func unpaced(int) error { return nil }

// object returns an object whose hash was compared.
func (s *Store) object(ctx context.Context, o Object) ([]byte, error) {
	name, err := s.files.objectName(ctx, o.SHA256)
	if err != nil {
		return nil, err
	}
	b, err := small(ctx, s.files, name, catalogBytesMax)
	defer s.memory.Charge(int64(len(b)))()
	if err == nil && sumOf(b) != o.SHA256 {
		err = fmt.Errorf("object %s was damaged or changed", o.SHA256)
	}
	return b, err
}
