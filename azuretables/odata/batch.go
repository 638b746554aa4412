package odata

import (
	"bytes"
	"strconv"
	"strings"
)

// Field is a header field of an operation in a batch. Name is as written; names are compared without case.
type Field struct{ Name, Value string }

// Request is an operation in a batch. Body is a part of the batch's body. Strings of its head are copies; Body refers
// to the input and is modified by DecodeEntity. It is a request of its own, with its own headers, but without an
// Authorization: the batch was authorized as a whole.
type Request struct {
	// In upper case; one of the six that a batch allows.
	Method string
	// The keys of an insert are in its body, not here.
	Path  Path   // Account is empty: the batch's applies
	Query string // percent-encoded, without the question mark
	// In the order of the request, with repeated names; the slice must not be appended to.
	Fields []Field
	Body   []byte
}

// Field returns the value of the first field with the given name, ignoring case, or an empty string. It is linear: an
// operation has about ten fields.
func (r *Request) Field(name string) string {
	for i := range r.Fields {
		if strings.EqualFold(r.Fields[i].Name, name) {
			return r.Fields[i].Value
		}
	}
	return ""
}

// Batch is the body of a $batch: the operations of one changeset, or one query. It is valid as long as the body. The
// body has two levels of multipart:
//
//	--batch_a                                  boundary of the Content-Type header
//	Content-Type: multipart/mixed; boundary=changeset_b
//
//	--changeset_b                              one part for each operation
//	Content-Type: application/http
//
//	POST https://account/Table HTTP/1.1        request line, fields, empty line, body
//	…
//	--changeset_b--
//	--batch_a--
type Batch struct {
	Requests  []Request // in the order of the body; one if Changeset is false, at least one otherwise
	Changeset bool

	// One list for all requests, which saves an allocation for each of them.
	fields []Field // of all requests
	target string  // of the previous request: the URLs of inserts are equal
}

// RequestError is an error of one operation in a batch: the changeset's response consists of this error, with the index
// in front of its message. Index counts from 0. Only errors that a client can attribute to an operation have an index;
// errors of the form of the batch have none.
type RequestError struct {
	Index int
	Err   *Error
}

// Error returns the text of the operation's error.
func (e *RequestError) Error() string { return e.Err.At(e.Index).Error() }

// Unwrap returns the operation's error.
func (e *RequestError) Unwrap() error { return e.Err }

// errBatch returns the service's error for a malformed batch. The service does not report what is malformed. It is a
// new value at each call, because callers may change its message.
func errBatch() *Error { return newError(InvalidInput) }

const (
	// fieldsMax is the maximum number of header fields of a part: clients send about ten.
	fieldsMax = 64
	// partBytes and partFields are the size of a small part, from which the initial capacity of lists is estimated.
	partBytes, partFields = 400, 5
)

// ParseBatch parses the body of a $batch, whose Content-Type contains the boundary: one changeset of writes, or one GET
// outside a changeset. Lines may end in CRLF or LF. Errors are an *Error for the whole batch (InvalidInput,
// RequestBodyTooLarge) or a *RequestError.
func ParseBatch(body []byte, contentType string, l *Limits) (*Batch, error) {
	// Checked before anything is parsed: the size bounds the memory of the result.
	if len(body) > l.BatchBytes {
		return nil, newError(RequestBodyTooLarge)
	}
	boundary, ok := multipart(contentType)
	if !ok {
		return nil, errBatch()
	}
	// A batch has exactly one part. The service supports neither several queries nor a query beside a changeset.
	parts := splitter{rest: body, boundary: boundary}
	part, ok := parts.next()
	if !ok {
		return nil, errBatch()
	}
	batch, err := parsePart(part, l)
	if err != nil {
		return nil, err
	}
	// Text after the last boundary is ignored; a missing last boundary means that the body was cut off.
	if _, more := parts.next(); more || !parts.closed {
		return nil, errBatch()
	}
	return batch, nil
}

// parsePart parses the single part of a batch. Its Content-Type decides between the two forms.
func parsePart(part []byte, l *Limits) (*Batch, error) {
	contentType, content, ok := cutPartHead(part)
	if !ok {
		return nil, errBatch()
	}
	// A part that is multipart itself is a changeset; its boundary is independent of the batch's.
	if boundary, ok := multipart(string(contentType)); ok {
		return parseChangeset(content, boundary, l)
	}
	batch := &Batch{Requests: make([]Request, 1)}
	if !isHTTP(contentType) {
		return nil, errBatch()
	}
	if err := batch.parse(content, &batch.Requests[0]); err != nil {
		return nil, err
	}
	// A single change must be in a changeset.
	if batch.Requests[0].Method != "GET" {
		return nil, errBatch()
	}
	return batch, nil
}

// parseChangeset parses the parts of a changeset, each one write. Parts without a last boundary, or none at all, are
// errors. Whether the operations are of one partition, and of different entities, is the caller's to check.
func parseChangeset(content []byte, boundary string, l *Limits) (*Batch, error) {
	// Both lists usually get their final capacity at once. A wrong estimate costs a reallocation.
	likely := min(1+len(content)/partBytes, l.BatchOperations)
	batch := &Batch{Changeset: true, Requests: make([]Request, 0, likely), fields: make([]Field, 0, partFields*likely)}
	parts := splitter{rest: content, boundary: boundary}
	for part, ok := parts.next(); ok; part, ok = parts.next() {
		// The recorded error has the index of the last operation that is allowed: 99 by default.
		if len(batch.Requests) >= l.BatchOperations {
			return nil, &RequestError{Index: l.BatchOperations - 1, Err: invalid(
				"The batch request operation exceeds the maximum " + strconv.Itoa(l.BatchOperations) +
					" changes per change set.")}
		}
		contentType, inner, ok := cutPartHead(part)
		if !ok || !isHTTP(contentType) {
			return nil, errBatch()
		}
		batch.Requests = append(batch.Requests, Request{})
		r := &batch.Requests[len(batch.Requests)-1]
		if err := batch.parse(inner, r); err != nil {
			return nil, err
		}
		// Queries are not allowed in a changeset.
		if r.Method == "GET" {
			return nil, errBatch()
		}
	}
	if !parts.closed || len(batch.Requests) == 0 {
		return nil, errBatch()
	}
	return batch, nil
}

// parse parses an application/http part: request line, fields, and the body up to the part's end. All strings of its
// head share one allocation. r must be the last of b.Requests. Content-Length and Transfer-Encoding of a part are
// accepted and ignored.
func (b *Batch) parse(content []byte, r *Request) error {
	// The body is not copied; Content-Length is not read, because the boundary ends the part.
	end := headEnd(content)
	head := string(content[:end])
	_, r.Body, _ = cutLine(content[end:]) // skip the empty line
	line, rest := cutTextLine(head)
	method, more, ok := strings.Cut(line, " ")
	// The URL is between the first and the last space, because clients do not escape spaces in keys.
	last := strings.LastIndexByte(more, ' ')
	if !ok || last < 0 || !strings.HasPrefix(more[last+1:], "HTTP/1.") {
		return errBatch()
	}
	// Methods are case-sensitive (RFC 9110 §9.1). HEAD and OPTIONS have no place in a batch.
	switch method {
	case "GET", "POST", "PUT", "PATCH", "MERGE", "DELETE":
	default:
		return errBatch()
	}
	r.Method = method
	if err := b.locate(strings.TrimSpace(more[:last]), r); err != nil {
		return err
	}
	from := len(b.fields)
	for rest != "" {
		line, rest = cutTextLine(rest)
		name, value, colon := strings.Cut(line, ":")
		if !colon || !isFieldName(name) || len(b.fields)-from == fieldsMax {
			return errBatch()
		}
		b.fields = append(b.fields, Field{Name: name, Value: strings.TrimSpace(value)})
	}
	// The capacity is cut, so that later fields cannot be appended to these.
	r.Fields = b.fields[from:len(b.fields):len(b.fields)]
	return nil
}

// locate parses the URL of the batch's last request. Inserts of one changeset have the same URL, which is then parsed
// once. r has an empty Path before.
func (b *Batch) locate(target string, r *Request) (err error) {
	if n := len(b.Requests); n > 1 && target == b.target {
		r.Path, r.Query = b.Requests[n-2].Path, b.Requests[n-2].Query
		return nil
	}
	b.target = target
	r.Path, r.Query, err = ParseBatchURL(target)
	return err
}

// isFieldName reports whether name may be the name of a header field; it checks only that name is not empty and has no
// white space.
func isFieldName[T ~string | ~[]byte](name T) bool {
	for i := range len(name) {
		if name[i] <= ' ' {
			return false
		}
	}
	return len(name) > 0
}

// multipart returns the boundary in a Content-Type of multipart/mixed. Other parameters are ignored, and quotation
// marks around the boundary are removed. Other media types, such as multipart/form-data, are no batch.
func multipart(contentType string) (boundary string, ok bool) {
	mediaType, parameters, _ := strings.Cut(contentType, ";")
	if !strings.EqualFold(strings.TrimSpace(mediaType), "multipart/mixed") {
		return "", false
	}
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "boundary") {
			continue
		}
		value = strings.TrimSpace(value)
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		return value, len(value) > 0 && len(value) <= 70 && !strings.ContainsAny(value, "\r\n\"") // RFC 2046 §5.1.1
	}
	return "", false
}

// isHTTP reports whether a part is an HTTP request. Parameters such as msgtype are ignored. The comparison ignores
// case.
func isHTTP(contentType []byte) bool {
	mediaType, _, _ := bytes.Cut(contentType, []byte(";"))
	return bytes.EqualFold(bytes.TrimSpace(mediaType), []byte("application/http"))
}

// cutLine returns the first line without its line ending; ok is false if it has none. A line may end in CRLF or LF.
func cutLine(b []byte) (line, rest []byte, ok bool) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		// The last line of a body that was cut off, or of a part, whose line ending belongs to the boundary.
		return bytes.TrimSuffix(b, []byte("\r")), nil, false
	}
	line, rest = b[:end], b[end+1:]
	if end > 0 && b[end-1] == '\r' {
		line = line[:end-1]
	}
	return line, rest, true
}

// cutTextLine is cutLine for strings: a last line without an ending counts as complete. It is used for the head of an
// operation, which has been cut from the part.
func cutTextLine(s string) (line, rest string) {
	line, rest, _ = strings.Cut(s, "\n")
	return strings.TrimSuffix(line, "\r"), rest
}

// headEnd returns the position of the first empty line, or the end of b. An operation without a body may end without an
// empty line. The position is before the empty line, so the caller skips it.
func headEnd(b []byte) int {
	for rest := b; len(rest) > 0; {
		line, more, _ := cutLine(rest)
		if len(line) == 0 {
			return len(b) - len(rest)
		}
		rest = more
	}
	return len(b)
}

// cutPartHead parses the header fields of a part, returns the value of Content-Type, and skips the empty line. ok is
// false if a line is not a header field. Other fields, such as Content-ID, are ignored. Field names are compared
// without case.
func cutPartHead(b []byte) (contentType, content []byte, ok bool) {
	for len(b) > 0 {
		var line []byte
		// b moves past the line in each step, so at the empty line it is the content.
		if line, b, _ = cutLine(b); len(line) == 0 {
			break
		}
		name, value, colon := bytes.Cut(line, []byte(":"))
		if !colon || !isFieldName(name) {
			return nil, nil, false
		}
		if bytes.EqualFold(name, []byte("Content-Type")) {
			contentType = bytes.TrimSpace(value)
		}
	}
	return contentType, b, true
}

// splitter iterates over the parts of a multipart body, which are separated by lines of -- and the boundary. It does
// not copy. A boundary is recognized only at the beginning of a line.
type splitter struct {
	rest     []byte
	boundary string
	// States of the iteration. A body without a last boundary never sets closed.
	opened bool // the first boundary was read
	closed bool // the last boundary was read
}

// next returns the next part, without the line ending that belongs to the boundary after it. It returns false after the
// last boundary, and also at the end of a body that lacks it; closed distinguishes them. The first call skips the
// preamble.
func (s *splitter) next() ([]byte, bool) {
	if s.closed {
		return nil, false
	}
	// Text before the first boundary is a preamble, which is ignored (RFC 2046 §5.1.1).
	if !s.opened {
		if _, ok := s.upToBoundary(); !ok || s.closed {
			return nil, false
		}
		s.opened = true
	}
	return s.upToBoundary()
}

// upToBoundary returns what precedes the next boundary line, and skips that line. It returns false if there is none.
// Text that contains the boundary within a line is part of the part.
func (s *splitter) upToBoundary() ([]byte, bool) {
	// at is always the beginning of a line.
	for at := 0; at < len(s.rest); {
		if s.rest[at] == '-' {
			line, rest, _ := cutLine(s.rest[at:])
			if is, last := s.delimiter(line); is {
				// The line ending before a boundary belongs to the boundary.
				part := bytes.TrimSuffix(bytes.TrimSuffix(s.rest[:at], []byte("\n")), []byte("\r"))
				s.rest, s.closed = rest, last
				return part, true
			}
		}
		// Only lines that begin with -- are examined; a body without them costs one search.
		next := bytes.Index(s.rest[at:], []byte("\n--"))
		if next < 0 {
			break
		}
		at += next + 1
	}
	return nil, false
}

// delimiter reports whether a line is a boundary, and whether it is the last one. White space may follow. A longer
// boundary that begins with this one is no delimiter: the rest must be white space.
func (s *splitter) delimiter(line []byte) (is, last bool) {
	rest, ok := bytes.CutPrefix(line, []byte("--"))
	if !ok || len(rest) < len(s.boundary) || string(rest[:len(s.boundary)]) != s.boundary {
		return false, false
	}
	rest, last = bytes.CutPrefix(rest[len(s.boundary):], []byte("--"))
	return len(bytes.TrimRight(rest, " \t")) == 0, last
}
