package encryption

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Wrap encrypts a secret, such as another key, with the newest key, whose id it returns. purpose is authenticated, so
// that a secret of one purpose cannot take the place of another one. The keys must not be Decrypting.
func (k *Keys) Wrap(secret []byte, purpose string, random io.Reader) (id KeyID, wrapped []byte, err error) {
	key := &k.list[0]
	// Nonces are random, and few: 2^32 secrets with one key would be too many.
	nonce := make([]byte, nonceBytes)
	if _, err := io.ReadFull(random, nonce); err != nil {
		return id, nil, fmt.Errorf("encryption: make a nonce: %w", err)
	}
	return key.id, key.wrap.Seal(nonce, nonce, secret, []byte(purpose)), nil
}

// Unwrap returns a secret that Wrap has encrypted. It returns an *UnknownKey if the key is not among the keys, which
// may be nil.
func (k *Keys) Unwrap(id KeyID, wrapped []byte, purpose string) ([]byte, error) {
	// A nil Keys finds none.
	key := k.find(id)
	if key == nil {
		return nil, &UnknownKey{Path: purpose, Key: id, Known: k.IDs()}
	}
	if len(wrapped) < nonceBytes {
		return nil, errWrapped
	}
	secret, err := key.wrap.Open(nil, wrapped[:nonceBytes], wrapped[nonceBytes:], []byte(purpose))
	if err != nil {
		return nil, errWrapped
	}
	return secret, nil
}

// errWrapped means that a wrapped secret is not the one that was written.
var errWrapped = errors.New("the wrapped key was damaged or changed")

// ParseKeyID returns the id that KeyID.String has shown.
func ParseKeyID(text string) (id KeyID, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("%.20q is not the id of a key", text)
	}
	return KeyID(b), nil
}
