package azuretables

import "unsafe"

// unsafeString is bytes as a string without a copy; it holds until they change.
func unsafeString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// unsafeBytes is a string as bytes that nobody may write to.
func unsafeBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
