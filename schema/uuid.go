package schema

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"strings"
)

// UUID is an id as in the system tables. Its bytes are in the order of its text.
type UUID [16]byte

// String returns the usual 8-4-4-4-12 form.
func (u UUID) String() string {
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// ParseUUID parses the 8-4-4-4-12 form, in lower or upper case.
//
//	00000000-0000-0000-0000-000000000001     valid
//	000000000000-0000-0000-0000-00000001     an error: hyphens at other positions
func ParseUUID(text string) (UUID, error) {
	var u UUID
	// hex accepts both cases.
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	// ReplaceAll removes hyphens at any position, so their positions are checked separately.
	if err != nil || len(b) != len(u) || len(text) != 36 ||
		text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return UUID{}, fmt.Errorf("schema: %q is not a UUID", text)
	}
	copy(u[:], b)
	return u, nil
}

// MarshalText returns String as bytes: UUIDs are texts in JSON.
func (u UUID) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText parses the text with ParseUUID.
func (u *UUID) UnmarshalText(text []byte) error {
	parsed, err := ParseUUID(string(text))
	*u = parsed
	return err
}

// nameUUID returns the name-based (version 3) UUID of name without a namespace, like Java's UUID.nameUUIDFromBytes.
func nameUUID(name []byte) UUID {
	return hashUUID(md5.Sum(name))
}

// hashUUID returns the version 3 UUID with a hash. Six bits of the hash become the version and variant: the version is
// the upper half of byte 6, the variant the upper two bits of byte 8.
func hashUUID(sum [md5.Size]byte) UUID {
	u := UUID(sum)
	u[6] = u[6]&0x0F | 0x30
	u[8] = u[8]&0x3F | 0x80
	return u
}
