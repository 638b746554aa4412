package backup

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"cqld/backup/bucket"
	"cqld/backup/seal"
	"cqld/storage/encryption"
)

// layout is the content of layoutName, which identifies a store. It is the only file of an encrypted store that is in
// clear.
type layout struct {
	Created time.Time `json:"created"`
	// Encryption is nil if the files of the store are in clear.
	Encryption *wrappedKey `json:"encryption,omitempty"`
}

// wrappedKey is the key of a store, encrypted with a key of the operator.
type wrappedKey struct {
	Key     string `json:"key"`     // the id of the operator's key
	Wrapped []byte `json:"wrapped"` // the key of the store
}

// purpose is of the wrapped keys of stores.
const purpose = "cqld backups: key of a store"

// Errors of encrypted stores.
var (
	errNoKey = errors.New("the backups are encrypted, and this node has no key: set backup_encryption_key_file")
	errClear = errors.New("the location has backups that are not encrypted, and this node encrypts backups: use an " +
		"empty location, or remove backup_encryption_key_file and the other options of that key")
	errReplaced = errors.New("the location was begun again, with another key")
)

// sealedFiles encrypts the files of a store if its layout says so. Names of objects are those that Key.Name returns;
// all other names, and the directories, are the ones of the caller. It finds the layout when it is first needed.
type sealedFiles struct {
	files
	keys *encryption.Keys // of the operator; nil if there are none
	mu   struct {
		sync.Mutex
		known bool
		key   *seal.Key // of the store; nil if its files are in clear
	}
}

// readLayout returns the layout, or nil if there is none.
func (f *sealedFiles) readLayout(ctx context.Context) (*layout, error) {
	b, err := small(ctx, f.files, layoutName, layoutBytesMax)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decodeLayout(b)
}

// decodeLayout decodes the layout.
func decodeLayout(b []byte) (*layout, error) {
	l := new(layout)
	format, err := decodeFormats(b, l, Format, encryptedFormat)
	if err == nil && (l.Encryption != nil) != (format == encryptedFormat) {
		err = errors.New("its format contradicts its content")
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// unwrap returns the key of a store, or nil if the files of the store are in clear.
func (l *layout) unwrap(keys *encryption.Keys) (*seal.Key, error) {
	if l.Encryption == nil {
		return nil, nil
	}
	if keys == nil {
		return nil, errNoKey
	}
	id, err := encryption.ParseKeyID(l.Encryption.Key)
	if err != nil {
		return nil, err
	}
	secret, err := keys.Unwrap(id, l.Encryption.Wrapped, purpose)
	var unknown *encryption.UnknownKey
	if errors.As(err, &unknown) {
		return nil, fmt.Errorf("the backups are encrypted with key %s, and this node has other keys (%v): add the key "+
			"to backup_encryption_key_file", id, unknown.Known)
	}
	if err != nil {
		return nil, err
	}
	return seal.New(secret)
}

// wrap returns a layout with a wrapped secret.
func wrap(created time.Time, keys *encryption.Keys, secret []byte) (*layout, error) {
	id, wrapped, err := keys.Wrap(secret, purpose, rand.Reader)
	return &layout{created, &wrappedKey{id.String(), wrapped}}, err
}

// writeLayout writes the layout.
func (f *sealedFiles) writeLayout(ctx context.Context, l *layout) error {
	format := Format
	if l.Encryption != nil {
		format = encryptedFormat
	}
	b, err := encodeFormat(l, format)
	if err != nil {
		return err
	}
	return f.files.write(ctx, layoutName, bucket.Bytes(b))
}

// begin writes the layout of a new store, whose files are encrypted if there are keys.
func (f *sealedFiles) begin(ctx context.Context, now time.Time) error {
	l := &layout{Created: now}
	if f.keys != nil {
		secret := make([]byte, seal.KeyBytes)
		rand.Read(secret)
		var err error
		if l, err = wrap(now, f.keys, secret); err != nil {
			return err
		}
	}
	return f.writeLayout(ctx, l)
}

// rewrap wraps the key of the store with the newest key of the operator, unless it is. No other file changes.
func (f *sealedFiles) rewrap(ctx context.Context, l *layout) error {
	if f.keys == nil || l.Encryption == nil || l.Encryption.Key == f.keys.Newest().String() {
		return nil
	}
	id, err := encryption.ParseKeyID(l.Encryption.Key)
	if err != nil {
		return err
	}
	// Two nodes may do it at the same time, with the same result.
	secret, err := f.keys.Unwrap(id, l.Encryption.Wrapped, purpose)
	if err != nil {
		return err
	}
	if l, err = wrap(l.Created, f.keys, secret); err != nil {
		return err
	}
	return f.writeLayout(ctx, l)
}

// key returns the key of the store, or nil if its files are in clear or there is no store yet.
func (f *sealedFiles) key(ctx context.Context) (*seal.Key, error) {
	f.mu.Lock()
	known, key := f.mu.known, f.mu.key
	f.mu.Unlock()
	if known {
		return key, nil
	}
	// Without the lock: two callers may read the layout at the same time.
	l, err := f.readLayout(ctx)
	if l == nil || err != nil {
		return nil, err
	}
	if key, err = l.unwrap(f.keys); err != nil {
		return nil, err
	}
	// The key of a store never changes: a new key of the operator wraps the same one.
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.known, f.mu.key = true, key
	return key, nil
}

// permits returns an error if backups that are made here would be in clear although the node has keys, or have another
// key than the ones that were read: of two nodes that begin a store at the same time, one replaces the layout of the
// other.
func (f *sealedFiles) permits(ctx context.Context) error {
	l, err := f.readLayout(ctx)
	if l == nil || err != nil {
		return err
	}
	if l.Encryption == nil && f.keys != nil {
		return errClear
	}
	now, err := l.unwrap(f.keys)
	if err != nil {
		return err
	}
	key, err := f.key(ctx)
	if err == nil && !key.Same(now) {
		err = errReplaced
	}
	return err
}

// objectName returns the name of the object with a content of this hash. The first digits make directories of moderate
// size.
func (f *sealedFiles) objectName(ctx context.Context, hash string) (string, error) {
	key, err := f.key(ctx)
	if err != nil {
		return "", err
	}
	if key != nil {
		hash = key.Name(hash)
	}
	return objectPath(hash), nil
}

// objectPath returns the name of the object with an identifier, which is a hash or what Key.Name returns.
func objectPath(id string) string { return objectsDir + "/" + id[:2] + "/" + id }

// single reports whether a name has one content only: the names of objects are derived from it.
func single(name string) bool { return strings.HasPrefix(name, objectsDir+"/") }

// stat implements files. The size is of the content, and -1 if the file was cut or extended.
func (f *sealedFiles) stat(ctx context.Context, name string) (bucket.Attributes, error) {
	key, err := f.key(ctx)
	if err != nil {
		return bucket.Attributes{}, err
	}
	// The size of the content follows from the size of the file.
	a, err := f.files.stat(ctx, name)
	if err != nil || key == nil {
		return a, err
	}
	if a.Size, err = seal.ContentSize(a.Size); err != nil {
		a.Size = -1
	}
	return a, nil
}

// write implements files.
func (f *sealedFiles) write(ctx context.Context, name string, c *bucket.Content) error {
	key, err := f.key(ctx)
	if err != nil {
		return err
	}
	if key == nil {
		// Without a layout, nothing says that the file is to be in clear. Files of a store in clear are marks of
		// deletions: nodes with keys make no backups there (permits).
		if f.keys != nil {
			if l, err := f.readLayout(ctx); l == nil {
				return errors.Join(err, ErrNoStore)
			}
		}
		return f.files.write(ctx, name, c)
	}
	var salt seal.Salt
	if !single(name) {
		salt = key.SaltOf(name, c.SHA256)
	}
	sealed := &bucket.Content{Size: seal.Size(c.Size), Source: func() (io.ReadCloser, error) {
		// Open compares the hash of the content, which the name or the salt depends on.
		r, err := c.Open()
		if err != nil {
			return nil, err
		}
		s, err := key.Seal(name, salt, r, c.Size)
		return sealedFile{s, r}, err
	}}
	// Services compare the hash of what they receive.
	if sealed.SHA256, err = sumOfContent(sealed); err != nil {
		return err
	}
	return f.files.write(ctx, name, sealed)
}

// sealedFile is a reader with the Close of the file below.
type sealedFile struct {
	io.Reader
	io.Closer
}

// sumOfContent returns the SHA-256 of a content, in hexadecimal digits.
func sumOfContent(c *bucket.Content) (sum string, err error) {
	r, err := c.Source()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	h := sha256.New()
	_, err = io.CopyBuffer(h, r, make([]byte, copyBytes))
	return hex.EncodeToString(h.Sum(nil)), err
}

// open implements files.
func (f *sealedFiles) open(ctx context.Context, name string) (r io.ReadCloser, size int64, err error) {
	key, err := f.key(ctx)
	if err != nil {
		return nil, 0, err
	}
	r, sealed, err := f.files.open(ctx, name)
	if err != nil || key == nil {
		return r, sealed, err
	}
	size, err = seal.ContentSize(sealed)
	var content io.Reader
	if err == nil {
		content, err = key.Open(name, r, size)
	}
	if err != nil {
		return nil, 0, errors.Join(err, r.Close())
	}
	return sealedFile{content, r}, size, nil
}

// readAt implements files.
func (f *sealedFiles) readAt(ctx context.Context, name string, b []byte, at, size int64) error {
	key, err := f.key(ctx)
	if err != nil {
		return err
	}
	if key == nil {
		return f.files.readAt(ctx, name, b, at, size)
	}
	read := func(b []byte, at int64) error { return f.files.readAt(ctx, name, b, at, seal.Size(size)) }
	// Most parts of an object are read, so that a second request for its salt would double them.
	var salt seal.Salt
	if !single(name) {
		if salt, err = seal.SaltFrom(read); err != nil {
			return err
		}
	}
	return key.ReadAt(name, salt, b, at, size, read)
}
