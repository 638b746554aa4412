package audit

import (
	"strconv"
	"time"
	"unicode/utf8"
)

// timeFormat has microseconds, always six digits, so that entries sort by their time as text.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// appendEntry appends the entry as one line of JSON. It omits fields without a value. It does not use encoding/json,
// which would allocate during the request. host is the address of this node. The names of fields are part of the
// format that operators process.
func appendEntry(dst []byte, e *Entry, host string, now time.Time) []byte {
	dst = append(dst, `{"time":"`...)
	dst = now.UTC().AppendFormat(dst, timeFormat)
	dst = append(dst, '"')
	// All further fields begin with a comma: time is always there.
	dst = appendText(dst, "host", host)
	if e.Source.IsValid() {
		dst = append(dst, `,"source":"`...)
		dst = e.Source.Addr().AppendTo(dst)
		dst = append(dst, `","port":`...)
		dst = strconv.AppendUint(dst, uint64(e.Source.Port()), 10)
	}
	dst = appendText(dst, "protocol", e.Protocol)
	dst = appendText(dst, "user", cut(e.User, namesBytesMax))
	dst = appendText(dst, "type", e.Type.String())
	dst = appendText(dst, "category", e.Type.Category().String())
	dst = appendText(dst, "keyspace", cut(e.Keyspace, namesBytesMax))
	dst = appendText(dst, "scope", cut(e.Scope, namesBytesMax))
	dst = appendText(dst, "batch", e.Batch)
	// Mark a truncated text, so that it is not mistaken for the whole statement.
	operation := cut(e.Operation, operationBytesMax)
	dst = appendText(dst, "operation", operation)
	if len(operation) < len(e.Operation) {
		dst = append(dst, `,"truncated":true`...)
	}
	// The outcome follows from the type, so that both can be used in searches.
	outcome := "success"
	if e.Type.failed() {
		outcome = "failure"
	}
	dst = appendText(dst, "outcome", outcome)
	dst = appendText(dst, "error", cut(e.Error, errorBytesMax))
	return append(dst, '}', '\n')
}

// cut returns at most n bytes of s, without a part of a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	// s[n] is the first omitted byte; it must begin a character.
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// appendText appends a field, unless its value is empty. name is a constant that needs no escaping.
func appendText(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, '"', ':')
	return appendString(dst, value)
}

// appendString appends a JSON string. Control characters are escaped, so that an entry is always one line. Bytes that
// are not UTF-8 are replaced.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		// Control characters could also change what a terminal shows.
		case c < ' ' || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			// Only characters beyond ASCII are decoded.
			r, size := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				dst = append(dst, `\ufffd`...)
			case r == '\u2028' || r == '\u2029' || r == '\u0085': // some readers treat these as line breaks
				dst = append(dst, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
			default:
				dst = append(dst, s[i:i+size]...)
			}
			// The bytes of the character were consumed together; the increment below is for single bytes.
			i += size
			continue
		}
		i++
	}
	return append(dst, '"')
}
