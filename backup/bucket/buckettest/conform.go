package buckettest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/backup/bucket"
)

// Conform tests that an empty bucket, below prefix, does what bucket.Bucket says. objects is more than a page of a
// list.
//
// The rules are the ones that the protocol of stores needs:
//
//  1. What does not exist is fs.ErrNotExist for each operation that reads, also for a range.
//  2. A write is seen by the reads and lists that follow it, and replaces the earlier content.
//  3. A read returns exactly the range, and the size of the whole object.
//  4. A write that fails for a reason of its content leaves nothing, and no part.
//  5. A list has each name below the prefix once, up to the next slash, over all pages.
//  6. A removal is seen by the reads that follow it.
func Conform(t *testing.T, b bucket.Bucket, prefix string, objects int) {
	ctx := t.Context()
	write := func(name, content string) {
		t.Helper()
		if err := b.Write(ctx, prefix+name, bucket.Bytes([]byte(content))); err != nil {
			t.Fatal(err)
		}
	}
	for what, err := range map[string]error{"stat": second(b.Stat(ctx, prefix+"none")),
		"read": third(b.Read(ctx, prefix+"none", 0, 0)), "range": third(b.Read(ctx, prefix+"none", 5, 2))} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of an object that does not exist: %v", what, err)
		}
	}
	// A removal is repeated when its answer was lost.
	if err := b.Remove(ctx, prefix+"none"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("remove of an object that does not exist: %v", err)
	}
	if names, err := b.List(ctx, prefix, 0); err != nil || len(names) > 0 {
		t.Errorf("an empty list: %q, %v", names, err)
	}
	// Larger than the buffers of connections, so that a reader that is closed early leaves bytes.
	large := strings.Repeat("0123456789abcdef", 1<<17)
	write("a/b", large)
	write("a/empty", "")
	write("ab", "first")
	write("ab", "second")
	// The service may run on another machine, with another clock.
	a, err := b.Stat(ctx, prefix+"a/b")
	if err != nil || a.Size != int64(len(large)) || time.Since(a.Modified).Abs() > time.Hour {
		t.Errorf("%+v, %v", a, err)
	}
	for _, part := range []struct{ at, n int64 }{{0, 0}, {0, 1}, {5, 0}, {1 << 20, 100}, {int64(len(large)) - 1, 1}} {
		want := large[part.at:]
		if part.n > 0 {
			want = want[:part.n]
		}
		if got, size := read(t, b, prefix+"a/b", part.at, part.n); got != want || size != int64(len(large)) {
			t.Errorf("%d bytes at %d: %d bytes of %d", part.n, part.at, len(got), size)
		}
	}
	// A range of an empty object is not valid in HTTP.
	if got, size := read(t, b, prefix+"a/empty", 0, 0); got != "" || size != 0 {
		t.Errorf("an empty object: %q of %d", got, size)
	}
	if got, _ := read(t, b, prefix+"ab", 0, 0); got != "second" {
		t.Errorf("an object that was replaced: %q", got)
	}
	conformFailures(t, b, prefix)
	// A directory is what precedes a slash: the object ab is not in a.
	for under, want := range map[string][]string{"": {"a", "ab"}, "a/": {"b", "empty"}, "a/b/": nil, "x/": nil} {
		names, err := b.List(ctx, prefix+under, 0)
		slices.Sort(names)
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("list %q: %q, %v", under, names, err)
		}
	}
	conformPages(t, b, prefix, objects)
	if err := b.Remove(ctx, prefix+"ab"); err != nil {
		t.Error(err)
	}
	if _, err := b.Stat(ctx, prefix+"ab"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an object that was removed: %v", err)
	}
}

// conformFailures tests that an object whose content has changed, or whose writing was cancelled, does not appear.
func conformFailures(t *testing.T, b bucket.Bucket, prefix string) {
	for what, damage := range map[string]func(*bucket.Content, context.CancelFunc){
		"another hash": func(c *bucket.Content, _ context.CancelFunc) { c.SHA256 = strings.Repeat("0", 64) },
		"fewer bytes":  func(c *bucket.Content, _ context.CancelFunc) { c.Size++ },
		"cancelled": func(c *bucket.Content, cancel context.CancelFunc) {
			source := c.Source
			c.Source = func() (io.ReadCloser, error) { cancel(); return source() }
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		c := bucket.Bytes([]byte(strings.Repeat("x", 100_000)))
		damage(c, cancel)
		if err := b.Write(ctx, prefix+"a/failed", c); err == nil {
			t.Errorf("%s: the object was written", what)
		}
		cancel()
		if _, err := b.Stat(t.Context(), prefix+"a/failed"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// conformPages lists more objects than a page has.
func conformPages(t *testing.T, b bucket.Bucket, prefix string, objects int) {
	for i := range objects {
		name := fmt.Sprintf("%spages/%d/x", prefix, i)
		if err := b.Write(t.Context(), name, bucket.Bytes([]byte("x"))); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := b.List(t.Context(), prefix+"pages/", 0); err != nil || len(names) != objects {
		t.Errorf("%d names of %d, %v", len(names), objects, err)
	}
	if names, err := b.List(t.Context(), prefix+"pages/", 1); err != nil || (len(names) == 0) != (objects == 0) {
		t.Errorf("%d names with a maximum, %v", len(names), err)
	}
}

// read reads a part of an object.
func read(t *testing.T, b bucket.Bucket, name string, at, n int64) (string, int64) {
	t.Helper()
	r, size, err := b.Read(t.Context(), name, at, n)
	if err != nil {
		t.Error(err)
		return "", 0
	}
	got, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Error(err)
	}
	return string(got), size
}

// second returns the second argument.
func second[A any](_ A, err error) error { return err }

// third returns the third argument.
func third[A, B any](_ A, _ B, err error) error { return err }
