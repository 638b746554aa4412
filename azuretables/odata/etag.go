package odata

import (
	"math"
	"strings"
)

// AppendETag appends the entity tag of a Timestamp: W/"datetime'2021-05-26T15%3A48%3A07.0454448Z'".
func AppendETag(dst []byte, ticks int64) []byte {
	dst = append(dst, `W/"datetime'`...)
	dst = appendDateTime(dst, ticks, "%3A")
	return append(dst, `'"`...)
}

// NoTicks is a Timestamp that no entity has.
const NoTicks = math.MinInt64

// ParseETag parses the value of If-Match: any is true for *, otherwise ticks is the Timestamp that the entity must
// have. A weak HTTP entity tag that no entity can have yields NoTicks. Anything else is InvalidInput, and so are strong
// tags, because the service has none. As in the service, the W may be in lower case.
func ParseETag(value string) (ticks int64, any bool, err error) {
	if value == "*" {
		return 0, true, nil
	}
	tag, weak := weakTag(value)
	text, ok := strings.CutPrefix(tag, `"datetime'`)
	if ok {
		text, ok = strings.CutSuffix(text, `'"`)
	}
	if ok {
		var raw [40]byte
		if plain, good := appendUnescapedColons(raw[:0], text); good {
			ticks, ok = ParseDateTime(plain)
			if ok {
				return ticks, false, nil
			}
		}
	}
	if weak && isOpaqueTag(tag) {
		return NoTicks, false, nil
	}
	return 0, false, invalid("The etag value '" + value + "' specified in one of the request headers is not valid. " +
		"Please make sure only one etag value is specified and is valid.")
}

// appendUnescapedColons unescapes %3A, and %2B of an offset; a time contains no other escapes.
func appendUnescapedColons(dst []byte, s string) ([]byte, bool) {
	if len(s) > 60 {
		return nil, false
	}
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			dst = append(dst, s[i])
			continue
		}
		if i+2 >= len(s) {
			return nil, false
		}
		switch s[i+1 : i+3] {
		case "3A", "3a":
			dst = append(dst, ':')
		case "2B", "2b":
			dst = append(dst, '+')
		default:
			return nil, false
		}
		i += 2
	}
	return dst, true
}

// weakTag returns the opaque tag of a weak entity tag.
func weakTag(value string) (tag string, weak bool) {
	if len(value) < 2 || value[0]|0x20 != 'w' || value[1] != '/' {
		return "", false
	}
	return value[2:], true
}

// isOpaqueTag reports whether tag is the opaque tag of an entity tag (RFC 9110, section 8.8.3).
func isOpaqueTag(tag string) bool {
	if len(tag) < 2 || tag[0] != '"' || tag[len(tag)-1] != '"' {
		return false
	}
	for _, c := range []byte(tag[1 : len(tag)-1]) {
		if c <= ' ' || c == '"' || c == 0x7F {
			return false
		}
	}
	return true
}
