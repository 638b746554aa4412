package cqlclient

import (
	"encoding/binary"
	"errors"
)

// errShort is the error for a truncated answer. It is one value for all cases: transcripts do not show where an answer
// was cut.
var errShort = errors.New("cqlclient: truncated answer")

// reader decodes a message body; after the first short read, every further one returns zero values and err stays set.
// Callers check err once at the end, and in each loop over a count that the server sent.
type reader struct {
	b   []byte
	err error
}

// take returns the next n bytes, which point into the body. After a short read it returns zeros for the fixed sizes.
// Zeros are at most 16 bytes, the size of a UUID, however large n is: a wrong length must not allocate.
func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.err, r.b = errShort, nil
		return make([]byte, max(0, min(n, 16)))
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

// byte, short, int and string read the notations of the protocol with these names.
func (r *reader) byte() byte     { return r.take(1)[0] }
func (r *reader) short() int     { return int(binary.BigEndian.Uint16(r.take(2))) }
func (r *reader) int() int       { return int(int32(binary.BigEndian.Uint32(r.take(4)))) }
func (r *reader) string() string { return string(r.take(r.short())) }

// shortBytes reads [short bytes], without a copy.
func (r *reader) shortBytes() []byte { return r.take(r.short()) }

// bytes reads [bytes]: nil for null, a non-nil slice otherwise. Unlike take it copies, because values outlive the body.
func (r *reader) bytes() []byte {
	n := r.int()
	if n < 0 || r.err != nil {
		return nil
	}
	return append([]byte{}, r.take(n)...)
}

// strings reads [string list].
func (r *reader) strings() []string {
	out := make([]string, 0, 4)
	for n := r.short(); n > 0 && r.err == nil; n-- {
		out = append(out, r.string())
	}
	return out
}

// The writers of the notations [short], [int], [string] and [long string].
func appendShort(b []byte, v int) []byte { return binary.BigEndian.AppendUint16(b, uint16(v)) }
func appendInt(b []byte, v int) []byte   { return binary.BigEndian.AppendUint32(b, uint32(v)) }

func appendString(b []byte, s string) []byte { return append(appendShort(b, len(s)), s...) }

func appendLongString(b []byte, s string) []byte { return append(appendInt(b, len(s)), s...) }
