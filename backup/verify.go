package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"cqld/backup/seal"
)

// Verified is the result of Verify.
type Verified struct {
	Objects int   // that were compared, also missing ones
	Bytes   int64 // by the manifest
	// Problems has a line for each object that is missing, has another size or another content, in order.
	Problems []string
}

// Verify reads objects of a backup and compares them with the manifest. pace is called with the bytes that were read,
// and may wait; it is called concurrently. An error means that the comparison could not be completed.
func (s *Store) Verify(ctx context.Context, all []Object, pace func(int) error) (out Verified, err error) {
	var mu sync.Mutex
	err = parallel(ctx, s.atOnce(verifyAtOnce), len(all), func(ctx context.Context, i int) error {
		problem, err := s.verify(ctx, all[i], pace)
		mu.Lock()
		defer mu.Unlock()
		if problem != "" {
			out.Problems = append(out.Problems, problem)
		}
		out.Objects, out.Bytes = out.Objects+1, out.Bytes+all[i].Size
		return err
	})
	// The readers end in any order.
	slices.Sort(out.Problems)
	return out, err
}

// verify returns what is wrong with an object, or an empty text.
func (s *Store) verify(ctx context.Context, o Object, pace func(int) error) (problem string, err error) {
	end, err := s.memory.copy(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	name, err := s.files.objectName(ctx, o.SHA256)
	if err != nil {
		return "", s.failed("read "+o.SHA256, err)
	}
	r, size, err := s.files.open(ctx, name)
	if missing(err) {
		return fmt.Sprintf("object %s is missing", o.SHA256), nil
	}
	if errors.Is(err, seal.ErrDamaged) {
		return fmt.Sprintf("object %s: %v", o.SHA256, err), nil
	}
	if err != nil {
		return "", s.failed("read "+o.SHA256, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if size != o.Size {
		return fmt.Sprintf("object %s has %d bytes, the manifest says %d", o.SHA256, size, o.Size), nil
	}
	h := sha256.New()
	_, err = io.CopyBuffer(h, &paced{ctx, r, pace}, make([]byte, copyBytes))
	if errors.Is(err, seal.ErrDamaged) {
		return fmt.Sprintf("object %s: %v", o.SHA256, err), nil
	}
	if err != nil {
		return "", s.failed("read "+o.SHA256, err)
	}
	if hex.EncodeToString(h.Sum(nil)) != o.SHA256 {
		return fmt.Sprintf("the content of object %s was changed", o.SHA256), nil
	}
	return "", nil
}
