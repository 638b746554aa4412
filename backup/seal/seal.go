package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

const (
	magic       = "cqldbak\x01"
	headerBytes = len(magic) + len(Salt{})
	chunkBytes  = 64 << 10
	tagBytes    = 16
	sealedBytes = chunkBytes + tagBytes
	// KeyBytes is the length of the key of a store.
	KeyBytes = 32
)

// ErrDamaged means that a file was not sealed with this key under this name, or was changed.
var ErrDamaged = errors.New("it was damaged, exchanged or changed: it does not decrypt")

// Salt distinguishes the contents of one name. The zero value is for names that have one content only.
type Salt [sha256.Size]byte

// Key is the key of a store. It is immutable, and safe for concurrent use.
type Key struct {
	// files, salts and names are derived from the key of the store, each for one use.
	files, salts, names []byte
}

// New returns a key from KeyBytes random bytes.
func New(secret []byte) (*Key, error) {
	if len(secret) != KeyBytes {
		return nil, fmt.Errorf("the key of a store has %d bytes instead of %d", len(secret), KeyBytes)
	}
	k := new(Key)
	for use, key := range map[string]*[]byte{"files": &k.files, "salts": &k.salts, "names": &k.names} {
		// The key is uniformly random, so it needs no extraction.
		var err error
		if *key, err = hkdf.Expand(sha256.New, secret, "cqld backups: "+use, sha256.Size); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// Name returns the name of an object, in hexadecimal digits, from the hash of its content. The same content has the
// same name in one store, and nothing can be learned from it without the key.
func (k *Key) Name(hash string) string {
	sum := code(k.names, hash)
	return hex.EncodeToString(sum[:])
}

// SaltOf returns the salt for a file whose name does not determine its content.
func (k *Key) SaltOf(name, hash string) Salt { return code(k.salts, name+"\x00"+hash) }

// code returns the HMAC-SHA256 of a text.
func code(key []byte, text string) (sum Salt) {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	h.Sum(sum[:0])
	return sum
}

// Same reports whether two keys are of one store. Either may be nil.
func (k *Key) Same(other *Key) bool {
	if k == nil || other == nil {
		return k == other
	}
	return hmac.Equal(k.files, other.files)
}

// chunks returns the number of chunks of a content. An empty one has a chunk, which authenticates that it is empty.
func chunks(size int64) int64 { return max(1, (size+chunkBytes-1)/chunkBytes) }

// Size returns the size of a sealed file with a content of size bytes.
func Size(size int64) int64 { return int64(headerBytes) + size + chunks(size)*tagBytes }

// ContentSize returns the size of the content of a sealed file, or ErrDamaged if no sealed file has this size.
func ContentSize(sealed int64) (int64, error) {
	body := sealed - int64(headerBytes)
	count := (body + sealedBytes - 1) / sealedBytes
	size := body - count*tagBytes
	if body < tagBytes || size < 0 || Size(size) != sealed {
		return 0, ErrDamaged
	}
	return size, nil
}

// file seals or opens the chunks of one file. It is safe for concurrent use: the nonce of a chunk follows from its
// number.
type file struct {
	aead cipher.AEAD
	last int64 // number of the last chunk
}

// file returns the chunks of a file with a content of size bytes.
func (k *Key) file(name string, salt Salt, size int64) (*file, error) {
	key, err := hkdf.Expand(sha256.New, k.files, string(salt[:])+name, KeyBytes)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &file{aead, chunks(size) - 1}, err
}

// nonce returns the nonce of a chunk.
func (f *file) nonce(chunk int64) []byte {
	var nonce [12]byte
	binary.BigEndian.PutUint64(nonce[3:], uint64(chunk))
	if chunk == f.last {
		nonce[11] = 1
	}
	return nonce[:]
}

// open decrypts a sealed chunk in place.
func (f *file) open(sealed []byte, chunk int64) ([]byte, error) {
	b, err := f.aead.Open(sealed[:0], f.nonce(chunk), sealed, nil)
	if err != nil {
		return nil, ErrDamaged
	}
	return b, nil
}

// Seal returns a reader of the sealed file. content must have at least size bytes.
func (k *Key) Seal(name string, salt Salt, content io.Reader, size int64) (io.Reader, error) {
	f, err := k.file(name, salt, size)
	if err != nil {
		return nil, err
	}
	s := &sealer{file: f, content: content, left: size, buffer: make([]byte, 0, sealedBytes)}
	s.ready = append(append(s.buffer, magic...), salt[:]...)
	return s, nil
}

// sealer reads a content and returns the sealed file. It has one chunk in memory, which it seals in place.
type sealer struct {
	*file
	content io.Reader
	left    int64 // bytes of the content
	chunk   int64 // the next one
	buffer  []byte
	ready   []byte // bytes of buffer that were not yet returned
}

// Read implements io.Reader.
func (s *sealer) Read(b []byte) (int, error) {
	if len(s.ready) == 0 {
		if s.chunk > s.last {
			return 0, io.EOF
		}
		plain := s.buffer[:min(s.left, chunkBytes)]
		if _, err := io.ReadFull(s.content, plain); err != nil {
			return 0, unexpected(err)
		}
		s.ready = s.aead.Seal(plain[:0], s.nonce(s.chunk), plain, nil)
		s.left -= int64(len(plain))
		s.chunk++
	}
	n := copy(b, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

// unexpected returns the error for a file that has fewer bytes than its size.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Open returns a reader of the content of a sealed file with a content of size bytes (ContentSize). It returns no byte
// that is not authentic. Bytes are authentic before the rest was read: a consumer that needs the whole file reads until
// io.EOF.
func (k *Key) Open(name string, sealed io.Reader, size int64) (io.Reader, error) {
	header := make([]byte, headerBytes)
	if _, err := io.ReadFull(sealed, header); err != nil {
		return nil, unexpected(err)
	}
	salt, err := saltIn(header)
	if err != nil {
		return nil, err
	}
	f, err := k.file(name, salt, size)
	return &opener{file: f, sealed: sealed, left: size, buffer: make([]byte, sealedBytes)}, err
}

// saltIn returns the salt in a header.
func saltIn(header []byte) (Salt, error) {
	if string(header[:len(magic)]) != magic {
		return Salt{}, ErrDamaged
	}
	return Salt(header[len(magic):]), nil
}

// opener reads a sealed file and returns its content. It has one chunk in memory, and returns bytes of it only when the
// whole chunk is authentic.
type opener struct {
	*file
	sealed io.Reader
	left   int64 // bytes of the content that were not decrypted
	chunk  int64 // the next one
	buffer []byte
	ready  []byte // bytes of buffer that were not yet returned
}

// Read implements io.Reader.
func (o *opener) Read(b []byte) (int, error) {
	for len(o.ready) == 0 {
		if o.chunk > o.last {
			return 0, io.EOF
		}
		sealed := o.buffer[:min(o.left, chunkBytes)+tagBytes]
		if _, err := io.ReadFull(o.sealed, sealed); err != nil {
			return 0, unexpected(err)
		}
		var err error
		if o.ready, err = o.open(sealed, o.chunk); err != nil {
			return 0, err
		}
		o.left -= int64(len(o.ready))
		o.chunk++
	}
	n := copy(b, o.ready)
	o.ready = o.ready[n:]
	return n, nil
}

// ReadAt fills b with bytes of the content from position at. size is of the content, and salt of the file. read is
// called once, and fills its argument with the bytes of the sealed file from a position.
func (k *Key) ReadAt(name string, salt Salt, b []byte, at, size int64, read func(b []byte, at int64) error) error {
	if at < 0 || at+int64(len(b)) > size {
		return io.ErrUnexpectedEOF
	}
	if len(b) == 0 {
		return nil
	}
	f, err := k.file(name, salt, size)
	if err != nil {
		return err
	}
	first, last := at/chunkBytes, (at+int64(len(b))-1)/chunkBytes
	// The position of a chunk in the sealed file; the last chunk of the file may be shorter.
	start := int64(headerBytes) + first*sealedBytes
	sealed := make([]byte, min(int64(headerBytes)+(last+1)*sealedBytes, Size(size))-start)
	if err := read(sealed, start); err != nil {
		return err
	}
	skip := at - first*chunkBytes
	for chunk := first; chunk <= last; chunk++ {
		n := min(len(sealed), sealedBytes)
		plain, err := f.open(sealed[:n], chunk)
		if err != nil {
			return err
		}
		b = b[copy(b, plain[skip:]):]
		sealed, skip = sealed[n:], 0
	}
	return nil
}

// SaltFrom reads the salt of a sealed file, for ReadAt. read fills its argument with the bytes of the file from a
// position.
func SaltFrom(read func(b []byte, at int64) error) (Salt, error) {
	header := make([]byte, headerBytes)
	if err := read(header, 0); err != nil {
		return Salt{}, err
	}
	return saltIn(header)
}
