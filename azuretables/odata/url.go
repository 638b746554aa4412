package odata

import (
	"strings"
	"unicode/utf8"
)

// Resource is the kind of resource that a URL's path names. The zero value means that no path was parsed.
type Resource uint8

// The resources.
const (
	ServiceRoot      Resource = 1 + iota // /
	TableSet                             // /Tables
	OneTable                             // /Tables('t')
	EntitySet                            // /t, /t()
	OneEntity                            // /t(PartitionKey='p',RowKey='r')
	Partition                            // /t(PartitionKey='p'): beyond Azure
	IncompleteEntity                     // /t(RowKey='r'), /t('x'): names no resource
	EntityCount                          // /t()/$count, /t/$count: beyond Azure
	BatchEndpoint                        // /$batch
	MetadataDocument                     // /$metadata
	BelowTable                           // /t/x, as /t/$batch
	TablesBelowTable                     // /t/Tables, /t/Tables('x')
)

// Path is a parsed URL path. Its strings are unescaped copies or parts of the request's path. Table is unescaped, in
// the case that the client wrote.
type Path struct {
	Account  string // in the path form, as written; in the host form, the given one
	Resource Resource
	Table    string // as written, not validated
	// PartitionKey and RowKey are unescaped, with single quotation marks.
	PartitionKey, RowKey string
}

// ErrPath returns the service's error for a malformed path. It applies to every predicate and escape that cannot be
// read. Its status is 400.
func ErrPath() *Error { return invalid("Bad Request - Error in query syntax.") }

// ErrKeyCount returns the service's error for an entity that is not named by both keys. It contains the type of the
// table's entities, which is account.table.
func ErrKeyCount(account, table string) *Error {
	return invalid("The number of keys specified in the URI does not match number of key properties for the " +
		"resource '" + account + "." + table + "'.")
}

// ParsePath parses a path as in the request, with its percent escapes. A non-empty hostAccount selects the host form,
// in which the host's name contains the account; otherwise the path's first segment is the account. As in WCF Data
// Services, on which the service is built, empty segments have no meaning (//Tables). Errors: InvalidInput,
// InvalidUri. The result contains the account also after an error in the rest.
//
// The query must have been cut off.
func ParsePath(escaped, hostAccount string) (Path, error) {
	p := Path{Account: hostAccount}
	rest := strings.TrimLeft(escaped, "/")
	if hostAccount == "" {
		account, more, _ := strings.Cut(rest, "/")
		// The account is unescaped on its own, so an escaped slash cannot end it.
		name, ok := Unescape(account, false)
		if !ok || name == "" {
			return p, newError(InvalidURI)
		}
		p.Account, rest = name, more
	}
	return p, p.resource(rest)
}

// ParseBatchURL parses a URL in a $batch: absolute or relative, in the path or the host form. It ignores the host and
// the account: the operation applies to the account that received the batch. Errors are the errors of ParsePath. A
// query in it is returned as written.
func ParseBatchURL(url string) (path Path, query string, err error) {
	url, query, _ = strings.Cut(url, "?")
	// "://" must be before the path: a key may contain it.
	if i := strings.Index(url, "://"); i >= 0 && !strings.ContainsAny(url[:i], "/('") {
		_, after, ok := strings.Cut(url[i+3:], "/")
		// A URL with a host must have a path.
		if !ok {
			return path, "", newError(InvalidURI)
		}
		url = after
	}
	url = strings.TrimLeft(url, "/")
	// Segments before the last one are accounts. A key may contain a slash, so a segment with a parenthesis is the
	// last.
	for again := true; again; {
		first, more, ok := strings.Cut(url, "/")
		more = strings.TrimLeft(more, "/")
		if !ok || more == "" || more == "$count" || strings.Contains(first, "(") {
			break
		}
		url, again = more, strings.HasSuffix(first, "-secondary") // the Python SDK sends the account twice there
	}
	return path, query, path.resource(url)
}

// resource parses what follows the account. Errors are InvalidInput and InvalidUri. Both forms of a table, /t and /t(),
// are equal.
func (p *Path) resource(escaped string) error {
	// Unescaped as a whole: keys cannot contain a slash, so escaped slashes cannot be confused with separators.
	name, ok := Unescape(escaped, false)
	if !ok {
		return ErrPath()
	}
	// Leading and trailing slashes have no meaning.
	name = strings.Trim(name, "/")
	switch name {
	case "":
		p.Resource = ServiceRoot
		return nil
	case "$batch":
		p.Resource = BatchEndpoint
		return nil
	case "$metadata":
		p.Resource = MetadataDocument
		return nil
	}
	// $count may follow a table or an empty predicate.
	name, count := strings.CutSuffix(name, "/$count")
	name = strings.TrimRight(name, "/")
	// The first parenthesis begins the predicate: names of tables contain none.
	table, predicate, parens := strings.Cut(name, "(")
	if parens {
		if predicate, ok = strings.CutSuffix(predicate, ")"); !ok {
			return ErrPath()
		}
	}
	// Something follows the table's name. Its predicate is ignored.
	if first, more, below := strings.Cut(table, "/"); below {
		p.Resource, p.Table = BelowTable, first
		if more = strings.Trim(more, "/"); strings.EqualFold(more, "Tables") {
			p.Resource = TablesBelowTable
		}
		return nil
	}
	// "(…)" alone, or a closing parenthesis without an opening one.
	if table == "" || strings.ContainsAny(table, ")'") {
		return newError(InvalidURI)
	}
	var err error
	// The name of the set of tables has no case.
	if strings.EqualFold(table, "Tables") {
		err = p.table(predicate)
	} else {
		err = p.entity(table, predicate)
	}
	if err == nil && count {
		// Only entities of a table can be counted.
		if p.Resource != EntitySet {
			return ErrPath()
		}
		p.Resource = EntityCount
	}
	return err
}

// table parses what is in the parentheses of /Tables(…): a quoted name, which TableName= may precede. Names of tables
// contain no quotation marks, but they are unescaped all the same.
func (p *Path) table(predicate string) error {
	if predicate = strings.TrimSpace(predicate); predicate == "" {
		p.Resource = TableSet
		return nil
	}
	// Both Tables('t') and Tables(TableName='t') name a table.
	predicate = strings.TrimSpace(strings.TrimPrefix(predicate, "TableName="))
	name, rest, ok := quoted(predicate)
	if !ok || strings.TrimSpace(rest) != "" {
		return ErrPath()
	}
	p.Resource, p.Table = OneTable, name
	return nil
}

// entity parses PartitionKey='p',RowKey='r' in either order. An empty predicate is the set of entities. Each key may
// occur once. Spaces around commas are accepted, as .NET does.
func (p *Path) entity(table, predicate string) error {
	p.Table, p.Resource = table, EntitySet
	// A value without a name is the key of a resource with one key, which an entity is not.
	if _, rest, ok := quoted(strings.TrimSpace(predicate)); ok && rest == "" {
		p.Resource = IncompleteEntity
		return nil
	}
	var keys Keys
	for rest := strings.TrimSpace(predicate); rest != ""; {
		name, more, ok := strings.Cut(rest, "=")
		if !ok {
			return ErrPath()
		}
		var value string
		// White space is allowed before a value, and around names and commas.
		if value, rest, ok = quoted(strings.TrimLeft(more, " ")); !ok {
			return ErrPath()
		}
		var key Keys
		switch strings.TrimSpace(name) {
		case "PartitionKey":
			p.PartitionKey, key = value, HasPartitionKey
		case "RowKey":
			p.RowKey, key = value, HasRowKey
		}
		// An unknown name, or a key that occurs twice.
		if key == 0 || keys&key != 0 {
			return ErrPath()
		}
		keys |= key
		// A comma must be followed by another key.
		if rest = strings.TrimSpace(rest); rest != "" {
			if rest, ok = strings.CutPrefix(rest, ","); !ok || strings.TrimSpace(rest) == "" {
				return ErrPath()
			}
			rest = strings.TrimSpace(rest)
		}
	}
	switch keys {
	case HasBoth:
		p.Resource = OneEntity
	case HasPartitionKey:
		p.Resource = Partition
	case HasRowKey:
		p.Resource = IncompleteEntity
	}
	return nil
}

// quoted parses a quoted string at the beginning of s, in which a doubled quotation mark represents one, and returns
// the rest. ok is false if it does not begin with a quotation mark, or does not end. value shares the memory of s
// unless a mark is doubled. An empty string is ”.
func quoted(s string) (value, rest string, ok bool) {
	if s == "" || s[0] != '\'' {
		return "", "", false
	}
	doubled := false
	for i := 1; i < len(s); i++ {
		if s[i] != '\'' {
			continue
		}
		// Two marks are one character of the value.
		if i+1 < len(s) && s[i+1] == '\'' {
			doubled = true
			i++
			continue
		}
		value = s[1:i]
		if doubled {
			value = strings.ReplaceAll(value, "''", "'")
		}
		return value, s[i+1:], true
	}
	return "", "", false
}

// Unescape decodes a URL's percent escapes; the result must be UTF-8. In a query, a plus represents a space. Escapes
// are decoded once. ok is false for malformed escapes. Bytes that are not escaped are kept, also those that a URL
// should not contain.
func Unescape(s string, query bool) (text string, ok bool) {
	// An escaped plus is %2B, and is decoded below.
	if query && strings.IndexByte(s, '+') >= 0 {
		s = strings.ReplaceAll(s, "+", " ")
	}
	// Most names and values have no escapes, and are returned without a copy.
	if strings.IndexByte(s, '%') < 0 {
		return s, utf8.ValidString(s)
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		high, ok1 := hexDigit(s[i+1])
		low, ok2 := hexDigit(s[i+2])
		if !ok1 || !ok2 {
			return "", false
		}
		b = append(b, high<<4|low)
		i += 2
	}
	return string(b), utf8.Valid(b)
}

// AppendLink appends an entity's URL relative to the service's root: t(PartitionKey='p',RowKey='r'). It doubles
// quotation marks and escapes every byte that a URL's path must not contain. The table's name needs no escapes. The
// result may be sent back in a request.
func AppendLink(dst []byte, table, partitionKey, rowKey string) []byte {
	dst = append(dst, table...)
	dst = append(dst, "(PartitionKey='"...)
	dst = appendKey(dst, partitionKey)
	dst = append(dst, "',RowKey='"...)
	dst = appendKey(dst, rowKey)
	return append(dst, "')"...)
}

// appendKey appends a key for a path. Bytes are escaped one by one, so a character of UTF-8 has several escapes.
func appendKey(dst []byte, key string) []byte {
	for i := 0; i < len(key); i++ {
		if key[i] == '\'' {
			dst = append(dst, "''"...)
		} else {
			// The characters are the unreserved ones of RFC 2396, without the quotation mark.
			dst = appendURLByte(dst, key[i], "-_.!~*()")
		}
	}
	return dst
}

// appendURLText appends a text for the fragment of a metadata URL, in which more characters are allowed. The service
// leaves these characters as they are in odata.metadata.
func appendURLText(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		dst = appendURLByte(dst, s[i], "-_.!~*(),'$@:;")
	}
	return dst
}

// appendURLByte appends a byte as it appears in a URL: letters, digits and the bytes in plain are not escaped. Bytes
// above 0x7F are always escaped. plain has ASCII characters only.
func appendURLByte(dst []byte, c byte, plain string) []byte {
	if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte(plain, c) >= 0 {
		return append(dst, c)
	}
	return append(dst, '%', upperHex[c>>4], upperHex[c&15])
}

// upperHex are the digits of percent escapes, which RFC 3986 §2.1 recommends in upper case.
const upperHex = "0123456789ABCDEF"

// CheckTableName returns nil if name is a valid table name: 3 to 63 letters and digits, the first a letter, and not the
// word tables. Errors: OutOfRangeInput, InvalidResourceName. The name is not unescaped. The word is compared without
// case.
func CheckTableName(name string) error {
	if len(name) < 3 || len(name) > 63 {
		return &Error{Code: OutOfRangeInput, Message: "The specified resource name length is not within the " +
			"permissible limits."}
	}
	// c|0x20 is the letter in lower case; a digit must not be the first character.
	for i := range len(name) {
		c := name[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || i > 0 && c >= '0' && c <= '9' {
			continue
		}
		return newError(InvalidResourceName)
	}
	// The word names the set of tables, so a table of this name could not be addressed.
	if strings.EqualFold(name, "tables") {
		return newError(InvalidResourceName)
	}
	return nil
}
