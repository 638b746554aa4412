package odata

import (
	"math"
	"strconv"
	"strings"
)

// AppendETag appends the entity tag of a Timestamp: W/"datetime'2021-05-26T15%3A48%3A07.0454448Z'". The colons are
// percent-encoded, as in the service. Its length is at most 60 bytes.
func AppendETag(dst []byte, ticks int64) []byte {
	dst = append(dst, `W/"`...)
	dst = appendVersion(dst, ticks)
	return append(dst, '"')
}

// appendVersion appends the text of an entity tag, without its quotation marks. Outside the years 1 to 9999, which CQL
// can write, it is the number of ticks: AppendDateTime gives all of these the same text, which stands for none of them.
func appendVersion(dst []byte, ticks int64) []byte {
	if ticks < year1 || ticks > MaxDateTime {
		dst = append(dst, "ticks'"...)
		return append(strconv.AppendInt(dst, ticks, 10), '\'')
	}
	dst = append(dst, "datetime'"...)
	dst = appendDateTime(dst, ticks, "%3A")
	return append(dst, '\'')
}

// NoTicks is a Timestamp that no entity has. An update that requires it never succeeds. It is the least int64, far
// below MinDateTime.
const NoTicks = math.MinInt64

// ParseETag parses the value of If-Match: any is true for *, otherwise ticks is the Timestamp that the entity must
// have. A weak HTTP entity tag that no entity can have yields NoTicks. Anything else is InvalidInput, and so are strong
// tags, because the service has none. As in the service, the W may be in lower case. SDKs send back the ETag that they
// received.
//
// The value is compared with the Timestamp, so two spellings of one time are equal. For example:
//
//	If-Match: *                                                 any
//	If-Match: W/"datetime'2021-05-26T15%3A48%3A07.0454448Z'"    ticks
//	If-Match: W/"ticks'2534023008000000000'"                    ticks, after the year 9999
//	If-Match: W/"x"                                             NoTicks
//	If-Match: "x"                                               InvalidInput
func ParseETag(value string) (ticks int64, any bool, err error) {
	if value == "*" {
		return 0, true, nil
	}
	// value without W/ is a strong tag.
	tag, weak := weakTag(value)
	// The text within the tag is the Timestamp.
	text, ok := strings.CutPrefix(tag, `"datetime'`)
	if ok {
		text, ok = strings.CutSuffix(text, `'"`)
	}
	if ok {
		// On the stack: a time is shorter.
		var raw [40]byte
		if plain, good := appendUnescapedColons(raw[:0], text); good {
			ticks, ok = ParseDateTime(plain)
			if ok {
				return ticks, false, nil
			}
		}
	}
	if ticks, ok = parseTicks(tag); ok {
		return ticks, false, nil
	}
	// Only weak tags may be unknown.
	if weak && isOpaqueTag(tag) {
		return NoTicks, false, nil
	}
	return 0, false, invalid("The etag value '" + value + "' specified in one of the request headers is not valid. " +
		"Please make sure only one etag value is specified and is valid.")
}

// parseTicks parses the opaque tag of a Timestamp outside the years 1 to 9999.
func parseTicks(tag string) (ticks int64, ok bool) {
	text, ok := strings.CutPrefix(tag, `"ticks'`)
	if ok {
		text, ok = strings.CutSuffix(text, `'"`)
	}
	if !ok {
		return 0, false
	}
	ticks, err := strconv.ParseInt(text, 10, 64)
	return ticks, err == nil && (ticks < year1 || ticks > MaxDateTime)
}

// appendUnescapedColons unescapes %3A, and %2B of an offset; a time contains no other escapes. The result is in dst, as
// far as it fits.
func appendUnescapedColons(dst []byte, s string) ([]byte, bool) {
	// Longer values cannot be a time.
	if len(s) > 60 {
		return nil, false
	}
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			dst = append(dst, s[i])
			continue
		}
		// An escape needs two more bytes.
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

// weakTag returns the opaque tag of a weak entity tag. The prefix has no white space after it. W and / are both
// required.
func weakTag(value string) (tag string, weak bool) {
	if len(value) < 2 || value[0]|0x20 != 'w' || value[1] != '/' {
		return "", false
	}
	return value[2:], true
}

// isOpaqueTag reports whether tag is the opaque tag of an entity tag (RFC 9110, section 8.8.3). An opaque tag includes
// its quotation marks.
func isOpaqueTag(tag string) bool {
	if len(tag) < 2 || tag[0] != '"' || tag[len(tag)-1] != '"' {
		return false
	}
	// Quotation marks and control characters end or break a tag.
	for _, c := range []byte(tag[1 : len(tag)-1]) {
		if c <= ' ' || c == '"' || c == 0x7F {
			return false
		}
	}
	return true
}
