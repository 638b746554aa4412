package azuretables

import "unsafe"

// unsafeString returns b as a string without a copy; it is valid until b changes. It is for memory of fasthttp, which
// stays unchanged while a request is served. A string that is kept must be copied.
func unsafeString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// unsafeBytes returns s as bytes without a copy. The caller must not modify them.
func unsafeBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
