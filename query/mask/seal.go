package mask

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"

	"cqld/schema"
)

// sealedPad is the block size in bytes: Seal pads a text to a multiple of it, so that the length of the result does
// not reveal the length of a masked value.
const sealedPad = 64

// Keys reports whether a column of t's primary key has a mask. If it does, paging states, which contain primary keys,
// must be sealed.
func Keys(t *schema.Table) bool {
	if !t.Masked() {
		return false
	}
	// Regular and static columns never appear in a paging state.
	for _, list := range [...][]*schema.Column{t.PartitionKey, t.Clustering} {
		for _, c := range list {
			if c.Mask != nil {
				return true
			}
		}
	}
	return false
}

// Seal encrypts and authenticates a text with a secret: AES-256-GCM, whose nonce is a MAC of the text. Equal texts
// have equal results. A nonce therefore repeats only for the same text, which reveals only that two states are equal.
// The output is the nonce, the ciphertext and the tag. text is not changed.
func Seal(secret, text []byte) []byte {
	// The padding is the byte 0x80 followed by zeros, so that Open can remove it from any text.
	padded := append(bytes.Clone(text), 0x80)
	padded = append(padded, make([]byte, (sealedPad-len(padded)%sealedPad)%sealedPad)...)
	aead := newAEAD(secret)
	nonce := derive(secret, "nonce", padded)[:aead.NonceSize()]
	return aead.Seal(nonce, nonce, padded, nil)
}

// Open returns the text of the output of Seal with the same secret. It returns an error for any other input,
// including the output of another secret, because clients can send any bytes as a paging state.
func Open(secret, sealed []byte) ([]byte, error) {
	aead := newAEAD(secret)
	if len(sealed) < aead.NonceSize() {
		return nil, fmt.Errorf("mask: %d bytes are too few for a sealed text", len(sealed))
	}
	padded, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], nil)
	if err != nil {
		return nil, fmt.Errorf("mask: open a sealed text: %w", err)
	}
	// The last 0x80 ends the text; only zeros may follow.
	end := bytes.LastIndexByte(padded, 0x80)
	if end < 0 {
		return nil, fmt.Errorf("mask: a sealed text without its end")
	}
	return padded[:end], nil
}

// derive returns a key or nonce for one purpose. The result has 32 bytes. Results for different purposes are
// independent, and the secret itself is never used as a key.
func derive(secret []byte, purpose string, data []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("cqld paging state " + purpose + "\x00"))
	h.Write(data)
	return h.Sum(nil)
}

// newAEAD returns the cipher of a secret of any length.
func newAEAD(secret []byte) cipher.AEAD {
	block, err := aes.NewCipher(derive(secret, "key", nil))
	if err != nil {
		panic(err) // the key has 32 bytes
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // the block has 16 bytes
	}
	return aead
}
