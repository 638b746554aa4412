package odata

import (
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Metadata is the level of metadata in a response, from the Accept header. The zero value is the service's default. It
// affects responses only; requests may have any annotations.
type Metadata uint8

// The levels: nometadata, minimalmetadata, fullmetadata. NoMetadata has no type annotations at all.
const (
	MinimalMetadata Metadata = iota
	NoMetadata
	FullMetadata
)

// ContentType returns the Content-Type of a JSON response at the level. The service repeats the level and streaming in
// this form. charset is always UTF-8.
func (m Metadata) ContentType() string {
	switch m {
	case NoMetadata:
		return "application/json;odata=nometadata;streaming=true;charset=utf-8"
	case FullMetadata:
		return "application/json;odata=fullmetadata;streaming=true;charset=utf-8"
	}
	return "application/json;odata=minimalmetadata;streaming=true;charset=utf-8"
}

// Context describes the origin of a response body: its service, table and $select. It holds a cache, so it is for one
// goroutine; copies are independent. All fields but the cache are set by the caller and not changed.
type Context struct {
	// Root is the URL of the service as the client addressed it, without a trailing slash:
	// https://account.table.core.windows.net, or http://127.0.0.1:10002/devstoreaccount1.
	Root    string
	Account string
	Table   string // as created
	Level   Metadata
	// Select contains the names of $select; nil means all. An entity without one of them gets a null for it.
	Select []string
	// SelectText is $select as in the request, without percent escapes; the response repeats it. If it is empty, the
	// response contains the names of Select.
	SelectText string

	second second // of the previous entity: entities of a page often share it
}

// AppendEntity appends a response of one entity. The metadata is the URL of the entity's type, which ends in @Element
// for one entity.
func (c *Context) AppendEntity(dst []byte, e *Entity) []byte {
	dst = append(dst, '{')
	if c.Level != NoMetadata {
		dst = c.appendMetadata(dst, c.Table, "/@Element")
		dst = append(dst, ',')
	}
	return append(c.appendBody(dst, e), '}')
}

// AppendEntities appends a response with a list of entities. It is for callers that have all entities.
func (c *Context) AppendEntities(dst []byte, entities []Entity) []byte {
	dst = c.AppendListBegin(dst)
	for i := range entities {
		dst = c.AppendListEntity(dst, &entities[i])
	}
	return c.AppendListEnd(dst)
}

// AppendListBegin appends the beginning of a response with a list of entities, for callers that produce them one by
// one: they call AppendListEntity for each, and then AppendListEnd. dst between the calls must be what the previous one
// returned. Entities can be written to the network between the calls, since earlier bytes are not changed.
func (c *Context) AppendListBegin(dst []byte) []byte {
	dst = append(dst, '{')
	if c.Level != NoMetadata {
		dst = append(c.appendMetadata(dst, c.Table, ""), ',')
	}
	return append(dst, `"value":[`...)
}

// AppendListEntity appends the next entity of a list. Whether a comma is necessary follows from the last byte, so the
// context needs no state. dst must end with the list so far.
func (c *Context) AppendListEntity(dst []byte, e *Entity) []byte {
	// Only an entity before this one ends in a brace; the beginning of the list ends in a bracket.
	if n := len(dst); n > 0 && dst[n-1] == '}' {
		dst = append(dst, ',')
	}
	return append(c.appendBody(append(dst, '{'), e), '}')
}

// AppendListEnd appends the end of a list. The continuation is in headers, not in the body.
func (c *Context) AppendListEnd(dst []byte) []byte { return append(dst, "]}"...) }

// AppendTable appends a response of one table, with its name as created. Tables have no ETag and no Timestamp.
func (c *Context) AppendTable(dst []byte, name string) []byte {
	dst = append(dst, '{')
	if c.Level != NoMetadata {
		dst = append(c.appendMetadata(dst, "Tables", "/@Element"), ',')
	}
	return append(c.appendTableBody(dst, name), '}')
}

// AppendTables appends a response with a list of tables. An empty list is valid.
func (c *Context) AppendTables(dst []byte, names []string) []byte {
	dst = append(dst, '{')
	if c.Level != NoMetadata {
		dst = append(c.appendMetadata(dst, "Tables", ""), ',')
	}
	dst = append(dst, `"value":[`...)
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		dst = append(c.appendTableBody(dst, name), '}')
	}
	return append(dst, "]}"...)
}

// AppendCount appends the response to $count (beyond Azure), a number. The body is the number alone, without JSON.
func AppendCount(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) }

// appendMetadata appends odata.metadata. set is the table, or Tables; element is /@Element for a single one. It is the
// "context URL" of OData 3.0.
func (c *Context) appendMetadata(dst []byte, set, element string) []byte {
	dst = append(dst, `"odata.metadata":"`...)
	dst = appendEscaped(dst, c.Root)
	dst = append(dst, `/$metadata#`...)
	dst = appendEscaped(dst, set)
	dst = append(dst, element...)
	// The projection is part of the URL, as in the recordings.
	if c.Select != nil {
		dst = append(dst, "&$select="...)
		dst = appendURLText(dst, c.SelectText)
		// Names of Select have no characters that would have to be escaped in JSON.
		for i := 0; i < len(c.Select) && c.SelectText == ""; i++ {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendURLText(dst, c.Select[i])
		}
	}
	return append(dst, '"')
}

// appendTableBody appends the members of a table, without the braces. TableName is the only property of a table.
func (c *Context) appendTableBody(dst []byte, name string) []byte {
	// Only fullmetadata names the type and the links of a table.
	if c.Level == FullMetadata {
		dst = append(dst, `"odata.type":"`...)
		dst = appendEscaped(dst, c.Account)
		dst = append(dst, `.Tables","odata.id":"`...)
		dst = appendEscaped(dst, c.Root)
		dst = append(dst, `/Tables('`...)
		dst = appendEscaped(dst, name)
		dst = append(dst, `')","odata.editLink":"Tables('`...)
		dst = appendEscaped(dst, name)
		dst = append(dst, `')",`...)
	}
	dst = append(dst, `"TableName":"`...)
	dst = appendEscaped(dst, name)
	return append(dst, '"')
}

// appendBody appends an entity's members, without the braces. The order of the members is the service's: identity,
// ETag, edit link, keys, Timestamp, properties. c.Select changes only the part after the edit link.
func (c *Context) appendBody(dst []byte, e *Entity) []byte {
	if c.Level == FullMetadata {
		dst = c.appendIdentity(dst, e)
	}
	// The ETag is a string with quotation marks, which JSON escapes.
	if c.Level != NoMetadata {
		dst = append(dst, `"odata.etag":"W/\"`...)
		dst = appendVersion(dst, e.Timestamp)
		dst = append(dst, `\"",`...)
	}
	if c.Level == FullMetadata {
		dst = append(dst, `"odata.editLink":"`...)
		dst = AppendLink(dst, c.Table, e.PartitionKey, e.RowKey)
		dst = append(dst, `",`...)
	}
	// With $select, keys and Timestamp are omitted if it does not name them.
	if c.Select != nil {
		// Keys are omitted if $select does not name them.
		return c.appendSelected(dst, e)
	}
	dst = appendSystem(dst, "PartitionKey", e.PartitionKey)
	dst = append(dst, ',')
	dst = appendSystem(dst, "RowKey", e.RowKey)
	dst = append(dst, ',')
	dst = c.appendTimestamp(dst, e.Timestamp)
	return c.appendProperties(dst, e)
}

// appendProperties appends all properties, each after a comma. The order is the order of e.Properties.
func (c *Context) appendProperties(dst []byte, e *Entity) []byte {
	for i := range e.Properties {
		dst = append(dst, ',')
		dst = c.appendProperty(dst, &e.Properties[i])
	}
	return dst
}

// appendIdentity appends the type and the id of an entity. The id is the absolute URL, and the edit link the relative
// one.
func (c *Context) appendIdentity(dst []byte, e *Entity) []byte {
	// The type is named after the account and the table.
	dst = append(dst, `"odata.type":"`...)
	dst = appendEscaped(dst, c.Account)
	dst = append(dst, '.')
	dst = appendEscaped(dst, c.Table)
	dst = append(dst, `","odata.id":"`...)
	dst = appendEscaped(dst, c.Root)
	dst = append(dst, '/')
	dst = AppendLink(dst, c.Table, e.PartitionKey, e.RowKey)
	return append(dst, `",`...)
}

// appendSelected appends the members that $select names: keys and Timestamp first, then the others in the order of
// $select. A name in $select that the entity lacks becomes null, as in the service. dst ends in a comma if metadata
// precede; it is removed if no member follows. A name that occurs twice was removed by ParseSelect.
func (c *Context) appendSelected(dst []byte, e *Entity) []byte {
	start := len(dst)
	// System properties keep this order, whatever the order in $select.
	for _, name := range [...]string{"PartitionKey", "RowKey", "Timestamp"} {
		if !slices.Contains(c.Select, name) {
			continue
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		switch name {
		case "PartitionKey":
			dst = appendSystem(dst, name, e.PartitionKey)
		case "RowKey":
			dst = appendSystem(dst, name, e.RowKey)
		default:
			dst = c.appendTimestamp(dst, e.Timestamp)
		}
	}
	for _, name := range c.Select {
		if isSystem(name) {
			continue
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		if p := e.Property(name); p != nil {
			// A missing property has no type, so it has no annotation.
			dst = c.appendProperty(dst, p)
			continue
		}
		dst = append(dst, '"')
		dst = appendEscaped(dst, name)
		dst = append(dst, `":null`...)
	}
	if len(dst) == start && start > 0 && dst[start-1] == ',' {
		return dst[:start-1] // no selected member exists: no comma after the etag
	}
	return dst
}

// isSystem reports whether a name is a system property, which is not in Entity.Properties. Their names are
// case-sensitive, as all names.
func isSystem(name string) bool {
	return name == "PartitionKey" || name == "RowKey" || name == "Timestamp"
}

// appendSystem appends a key. Its name needs no escapes. Keys are always strings.
func appendSystem(dst []byte, name, value string) []byte {
	dst = append(dst, '"')
	dst = append(dst, name...)
	dst = append(dst, `":"`...)
	dst = appendEscaped(dst, value)
	return append(dst, '"')
}

// appendTimestamp appends the Timestamp, whose type is annotated only at the full level.
func (c *Context) appendTimestamp(dst []byte, ticks int64) []byte {
	if c.Level == FullMetadata {
		dst = append(dst, `"Timestamp@odata.type":"Edm.DateTime",`...)
	}
	dst = append(dst, `"Timestamp":"`...)
	return append(c.second.append(dst, ticks), '"')
}

// appendProperty appends "name":value, preceded by a type annotation if JSON does not express the type. Integers,
// booleans and strings need no annotation. The annotation is name@odata.type, directly before the property.
func (c *Context) appendProperty(dst []byte, p *Property) []byte {
	// Without metadata, the client must know the types itself.
	if c.Level != NoMetadata && p.Value.annotated() {
		dst = append(dst, '"')
		dst = appendEscaped(dst, p.Name)
		dst = append(dst, `@odata.type":"`...)
		dst = append(dst, p.Value.Type.String()...)
		dst = append(dst, `",`...)
	}
	dst = append(dst, '"')
	dst = appendEscaped(dst, p.Name)
	dst = append(dst, `":`...)
	return p.Value.AppendJSON(dst)
}

// annotated reports whether the JSON form needs an annotation, because it would be read as another type without. A
// DateTime without one would be read as a String.
func (v *Value) annotated() bool {
	// Binary, DateTime, GUID and Int64 are strings in JSON.
	switch v.Type {
	case Binary, DateTime, GUID, Int64:
		return true
	// Other doubles have a decimal point or an exponent (appendDouble).
	case Double:
		return math.IsNaN(v.Float) || math.IsInf(v.Float, 0)
	}
	return false
}

// AppendJSON appends the JSON form of a value. The zero Value becomes null.
func (v *Value) AppendJSON(dst []byte) []byte {
	//exhaustive:enforce
	switch v.Type {
	case String:
		dst = append(dst, '"')
		dst = appendEscaped(dst, v.Bytes)
		return append(dst, '"')
	case Binary:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, v.Bytes)
		return append(dst, '"')
	// Booleans are the integers 0 and 1 in a Value.
	case Boolean:
		return strconv.AppendBool(dst, v.Int != 0)
	// The range is clamped by AppendDateTime.
	case DateTime:
		dst = append(dst, '"')
		return append(AppendDateTime(dst, v.Int), '"')
	case Double:
		return appendDouble(dst, v.Float)
	case GUID:
		dst = append(dst, '"')
		return append(appendGUID(dst, v.Bytes), '"')
	case Int32:
		return strconv.AppendInt(dst, v.Int, 10)
	// JSON numbers above 2^53 lose digits in JavaScript, so an Int64 is a string.
	case Int64:
		dst = append(dst, '"')
		return append(strconv.AppendInt(dst, v.Int, 10), '"')
	}
	return append(dst, "null"...)
}

// appendDouble appends a Double in .NET's format: always with a decimal point or an exponent, with an exponent from
// 1E+15 and below 0.0001, and with the shortest digits that represent the number. For example 1.0, 0.5, 1E+15 and
// 1.5E-05.
func appendDouble(dst []byte, f float64) []byte {
	switch {
	// JSON has no such numbers.
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	// An integral value below 1e15 fits an int64 exactly.
	case f == math.Trunc(f) && math.Abs(f) < 1e15:
		// Minus zero keeps its sign, which the integer would lose.
		if f == 0 && math.Signbit(f) {
			dst = append(dst, '-')
		}
		return append(strconv.AppendInt(dst, int64(f), 10), ".0"...)
	case math.Abs(f) >= 1e15 || math.Abs(f) < 1e-4:
		return strconv.AppendFloat(dst, f, 'E', -1, 64)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}

// appendGUID appends 16 bytes in groups of 8, 4, 4, 4 and 12 digits. b has 16 bytes, in the order of the text, not in
// the mixed order of .NET's ToByteArray.
func appendGUID(dst, b []byte) []byte {
	for i, c := range b {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = append(dst, hexDigits[c>>4], hexDigits[c&15])
	}
	return dst
}

// hexDigits are the digits of escapes and GUIDs, which are in lower case.
const hexDigits = "0123456789abcdef"

// appendEscaped appends a text in the form between a JSON string's quotation marks, as the service does: everything
// above U+007F is \uxxxx, and a surrogate pair above U+FFFF. Most texts need no escapes, so it copies the text first
// and then checks the copy. s must be valid UTF-8; decoders guarantee it. A slash is not escaped.
func appendEscaped[T ~string | ~[]byte](dst []byte, s T) []byte {
	start := len(dst)
	dst = append(dst, s...)
	// allPlain is faster for long text that is plain, but does not find the first byte that is not.
	if len(s) >= longText && allPlain(dst[start:]) {
		return dst
	}
	if n := plainLen(dst[start:]); n < len(s) {
		// The plain prefix stays; the rest is appended byte by byte.
		return appendHard(dst[:start+n], s[n:])
	}
	return dst
}

// appendHard appends a text that needs escapes. It is not part of appendEscaped, which is inlined for plain text.
func appendHard[T ~string | ~[]byte](dst []byte, s T) []byte {
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			i += n
			// JSON escapes are UTF-16, so a character above U+FFFF becomes a surrogate pair.
			if r > 0xFFFF {
				r -= 0x10000
				dst = appendEscapedUnit(dst, 0xD800|r>>10)
				r = 0xDC00 | r&0x3FF
			}
			dst = appendEscapedUnit(dst, r)
			continue
		case c < 0x20, c == '"', c == '\\':
			dst = appendEscapedASCII(dst, c)
		default:
			dst = append(dst, c)
		}
		i++
	}
	return dst
}

// appendEscapedUnit appends one UTF-16 code unit as \uxxxx. r is at most 0xFFFF.
func appendEscapedUnit(dst []byte, r rune) []byte {
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// appendEscapedASCII appends a control character, a quotation mark or a backslash. Other ASCII characters must not be
// passed to it.
func appendEscapedASCII(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	// The short escapes of RFC 8259; other control characters have none.
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	}
	return appendEscapedUnit(dst, rune(c))
}
