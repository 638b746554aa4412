package encryption

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// KeyID identifies a store key and reveals nothing about it. The zero value stands for no key: the file is in clear.
type KeyID [8]byte

// String returns the id in hexadecimal digits, or "none".
func (id KeyID) String() string {
	if id == (KeyID{}) {
		return "none"
	}
	return hex.EncodeToString(id[:])
}

// Keys are the store keys of a node. They are immutable, and safe for concurrent use.
type Keys struct {
	// list begins with the newest key. The others only decrypt.
	list []storeKey
	// decrypt means that new files are written in clear.
	decrypt bool
}

// storeKey is a store key in the forms in which it is used.
type storeKey struct {
	id   KeyID
	wrap cipher.AEAD // AES-256-GCM
}

const (
	keyBytes = 32 // of AES-256
	// keysMax bounds the list: a rotation needs two keys.
	keysMax = 16
)

// ParseKeys returns the store keys of a text, for example of a key file: 32 bytes each, in hexadecimal digits or in
// base64, separated by white space or commas. The first one encrypts new files, and the others only decrypt. A number
// sign begins a comment. Errors never contain the text.
func ParseKeys(text string) (*Keys, error) {
	k := new(Keys)
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		for _, field := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\r,", r) }) {
			raw, err := decodeKey(field)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			key, err := newStoreKey(raw)
			if err != nil {
				return nil, err
			}
			if k.find(key.id) != nil {
				return nil, fmt.Errorf("line %d: key %s is listed twice", i+1, key.id)
			}
			k.list = append(k.list, *key)
		}
	}
	switch {
	case len(k.list) == 0:
		return nil, errors.New("there is no key; `openssl rand -hex 32` makes one")
	case len(k.list) > keysMax:
		return nil, fmt.Errorf("there are %d keys, more than %d", len(k.list), keysMax)
	}
	return k, nil
}

// decodeKey decodes a key of 32 bytes.
func decodeKey(text string) ([]byte, error) {
	decode := base64.StdEncoding.DecodeString
	if len(text) == hex.EncodedLen(keyBytes) {
		decode = hex.DecodeString
	}
	raw, err := decode(text)
	if err != nil || len(raw) != keyBytes {
		return nil, fmt.Errorf("a key of %d characters is not 32 bytes in hexadecimal digits or base64; "+
			"`openssl rand -hex 32` makes one", len(text))
	}
	// A key of equal bytes is probably a placeholder from an example.
	if bytes.Count(raw, raw[:1]) == len(raw) {
		return nil, errors.New("all bytes of the key are equal; `openssl rand -hex 32` makes a random one")
	}
	return raw, nil
}

// newStoreKey derives the id and the ciphers of a store key.
func newStoreKey(raw []byte) (*storeKey, error) {
	// The key is uniformly random, so it needs no extraction.
	id, err := hkdf.Expand(sha256.New, raw, "cqld store key: id", len(KeyID{}))
	if err != nil {
		return nil, err
	}
	wrapping, err := hkdf.Expand(sha256.New, raw, "cqld store key: AES-256-GCM", keyBytes)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(wrapping)
	if err != nil {
		return nil, err
	}
	wrap, err := cipher.NewGCM(block)
	return &storeKey{id: KeyID(id), wrap: wrap}, err
}

// Decrypting returns the same keys for a node that writes new files in clear.
func (k *Keys) Decrypting() *Keys { return &Keys{list: k.list, decrypt: true} }

// Newest returns the id of the key of new files. It is zero if new files are written in clear.
func (k *Keys) Newest() KeyID {
	if k == nil || k.decrypt {
		return KeyID{}
	}
	return k.list[0].id
}

// IDs returns the ids of all keys; the newest is the first. A nil Keys has none.
func (k *Keys) IDs() (ids []KeyID) {
	if k == nil {
		return nil
	}
	for i := range k.list {
		ids = append(ids, k.list[i].id)
	}
	return ids
}

// find returns the key with an id, or nil.
func (k *Keys) find(id KeyID) *storeKey {
	if k == nil {
		return nil
	}
	for i := range k.list {
		if k.list[i].id == id {
			return &k.list[i]
		}
	}
	return nil
}

// UnknownKey is the error of a file whose store key is not among the keys.
type UnknownKey struct {
	Path  string
	Key   KeyID
	Known []KeyID
}

// Error implements error.
func (e *UnknownKey) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("%s is encrypted with key %s, and no key is configured: set encryption_key_file to the "+
			"file with this key", e.Path, e.Key)
	}
	known := make([]string, len(e.Known))
	for i, id := range e.Known {
		known[i] = id.String()
	}
	return fmt.Sprintf("%s is encrypted with key %s, which is not among the configured keys (%s): add this key after "+
		"the first one", e.Path, e.Key, strings.Join(known, ", "))
}
