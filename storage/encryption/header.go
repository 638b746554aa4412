package encryption

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// The header of an encrypted file. All bytes up to headerBytes that are not listed are zero, and ignored.
//
//	0   8  magic; its last byte is the version of the format
//	8   8  id of the store key
//	16 12  nonce
//	28 64  data key (32) and first counter (16), sealed with the store key; the 16 bytes before the nonce are
//	       authenticated as well
//	92  4  CRC-32C of all bytes before, which distinguishes a damaged header from an unknown key, and a header with a
//	       damaged magic from a file in clear
const (
	// headerBytes is a page, so that blocks of a log stay aligned to pages.
	headerBytes = 4096
	// fieldsBytes is less than a sector (invariant 2).
	fieldsBytes = sealedEnd + 4

	magic      = "\xcfcqldE\x00\x01"
	idEnd      = len(magic) + len(KeyID{})
	nonceBytes = 12
	tagBytes   = 16
	sealedEnd  = idEnd + nonceBytes + keyBytes + aes.BlockSize + tagBytes
)

// header contains the leading bytes of a file that identify it: those of an encrypted file contain random bytes.
type header [fieldsBytes]byte

// encrypted reports whether the header is one of an encrypted file, possibly a damaged one. A file whose magic alone is
// damaged must not be taken for a file in clear: it would have another size, with which Pebble does not start.
func (h *header) encrypted() bool { return h.hasMagic() || h.intact() }

// damaged reports whether the header is one of an encrypted file, with other bytes than were written.
func (h *header) damaged() bool { return h.encrypted() && !(h.hasMagic() && h.intact()) }

// hasMagic reports whether the header begins as the one of an encrypted file.
func (h *header) hasMagic() bool { return bytes.HasPrefix(h[:], []byte(magic)) }

// intact reports whether the bytes after the magic are those that were written.
func (h *header) intact() bool { return binary.BigEndian.Uint32(h[sealedEnd:]) == h.sum() }

// sum returns the checksum of the magic and the fields.
func (h *header) sum() uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum([]byte(magic), table), table, h[len(magic):sealedEnd])
}

// key returns the id of the store key; zero for a file in clear, and for a damaged header.
func (h *header) key() (id KeyID) {
	if h.encrypted() && !h.damaged() {
		copy(id[:], h[len(magic):idEnd])
	}
	return id
}

// readHeader reads the beginning of a file. The rest is zero if the file is shorter.
func readHeader(f vfs.File) (h header, err error) {
	if _, err := f.ReadAt(h[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return h, err
	}
	return h, nil
}

// newHeader returns the header of a new file with a random data key.
func newHeader(key *storeKey, random io.Reader) (h header, c *contentCipher, err error) {
	var secret [keyBytes + aes.BlockSize]byte
	if _, err := io.ReadFull(random, secret[:]); err != nil {
		return h, nil, fmt.Errorf("encryption: make a key: %w", err)
	}
	copy(h[:], magic)
	copy(h[len(magic):], key.id[:])
	nonce := h[idEnd : idEnd+nonceBytes]
	if _, err := io.ReadFull(random, nonce); err != nil {
		return h, nil, fmt.Errorf("encryption: make a key: %w", err)
	}
	sealed := key.wrap.Seal(nil, nonce, secret[:], h[:idEnd])
	copy(h[idEnd+nonceBytes:], sealed)
	binary.BigEndian.PutUint32(h[sealedEnd:], h.sum())
	c, err = newContentCipher(secret[:])
	return h, c, err
}

// open returns the cipher of an encrypted file. path is for errors. A header that does not authenticate is corrupt: a
// wrong store key has another id.
func (k *Keys) open(h *header, path string) (*contentCipher, error) {
	if h.damaged() {
		return nil, damagedError(path)
	}
	key := k.find(h.key())
	if key == nil {
		return nil, &UnknownKey{Path: path, Key: h.key(), Known: k.IDs()}
	}
	secret, err := key.wrap.Open(nil, h[idEnd:idEnd+nonceBytes], h[idEnd+nonceBytes:sealedEnd], h[:idEnd])
	if err != nil {
		return nil, damagedError(path)
	}
	return newContentCipher(secret)
}

// damagedError is the error of a file whose header was changed. Pebble takes the file out of service.
func damagedError(path string) error {
	return fmt.Errorf("%w: the encryption header of %s is damaged", pebble.ErrCorruption, path)
}

// contentCipher encrypts and decrypts the content of one file. It is safe for concurrent use.
type contentCipher struct {
	block     cipher.Block
	high, low uint64 // the first counter
}

// newContentCipher returns the cipher of a data key that is followed by its first counter.
func newContentCipher(secret []byte) (*contentCipher, error) {
	block, err := aes.NewCipher(secret[:keyBytes])
	if err != nil {
		return nil, err
	}
	return &contentCipher{block: block, high: binary.BigEndian.Uint64(secret[keyBytes:]),
		low: binary.BigEndian.Uint64(secret[keyBytes+8:])}, nil
}

// stream returns the key stream from an offset of the content.
func (c *contentCipher) stream(offset int64) cipher.Stream {
	var counter [aes.BlockSize]byte
	high, low := c.high, c.low+uint64(offset)/aes.BlockSize
	if low < c.low {
		high++
	}
	binary.BigEndian.PutUint64(counter[:8], high)
	binary.BigEndian.PutUint64(counter[8:], low)
	s := cipher.NewCTR(c.block, counter[:])
	if skip := offset % aes.BlockSize; skip > 0 {
		s.XORKeyStream(counter[:skip], counter[:skip])
	}
	return s
}

// apply encrypts or decrypts bytes at an offset of the content. dst and src are equal or do not overlap.
func (c *contentCipher) apply(dst, src []byte, offset int64) { c.stream(offset).XORKeyStream(dst, src) }
