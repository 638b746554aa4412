package access

import (
	"context"
	crand "crypto/rand"
	"encoding/base64"
	"fmt"

	"golang.org/x/crypto/bcrypt"

	"cqld/coordinator"
)

// Passwords hashes the passwords of statements, and bounds how many are hashed. Each takes tens of milliseconds of CPU
// time, and every role may change its own password as often as it likes. A hash of cost 10 keeps one core busy.
// hashesMax leaves the other cores to requests, and the wait of the last admitted caller is bounded by hashesWaitingMax
// hashes.
type Passwords struct {
	admitted chan struct{} // a slot for each that is hashed or waits
	running  chan struct{} // a slot for each that is hashed
}

// NewPasswords returns a Passwords with all slots free.
func NewPasswords() *Passwords {
	return &Passwords{admitted: make(chan struct{}, hashesMax+hashesWaitingMax), running: make(chan struct{},
		hashesMax)}
}

// Hash returns the bcrypt hash of a password, or a coordinator.Overloaded if too many wait to be hashed. bcrypt refuses
// passwords of more than 72 bytes, because it would ignore the rest.
func (h *Passwords) Hash(ctx context.Context, password string) (string, error) {
	select {
	case h.admitted <- struct{}{}:
		defer func() { <-h.admitted }()
	default:
		return "", &coordinator.Overloaded{What: "too many passwords wait to be hashed"}
	}
	select {
	// admitted is taken before running, so a caller that waits here is counted as waiting and keeps further ones out.
	case h.running <- struct{}{}:
		defer func() { <-h.running }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	if err != nil {
		return "", fmt.Errorf("node: hash password: %w", err)
	}
	return string(hash), nil
}

const (
	hashesMax        = 1  // passwords that are hashed at once for statements
	hashesWaitingMax = 32 // further ones that wait
)

// generatedPasswordBytes is the least randomness of a generated password, 128 bits. A password has two letters for each
// of these bytes, about 5.8 bits each.
const generatedPasswordBytes = 16

// GeneratePassword returns a random password of letters and digits.
func GeneratePassword() string {
	const letters = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789" // without those that look alike
	b := make([]byte, 2*generatedPasswordBytes)
	crand.Read(b) // never fails (crypto/rand)
	for i := range b {
		// 256 is not a multiple of the number of letters, so a few are slightly more frequent: far less than the
		// surplus of two letters a byte.
		b[i] = letters[int(b[i])%len(letters)]
	}
	return string(b)
}

// tablesKeyBytes is the size of a generated key, as in Azure. The text of a key has 88 characters of base64.
const tablesKeyBytes = 64

// NewTablesKey returns a random key of an Azure Tables account.
func NewTablesKey() string {
	b := make([]byte, tablesKeyBytes)
	crand.Read(b) // never fails (crypto/rand)
	return base64.StdEncoding.EncodeToString(b)
}
