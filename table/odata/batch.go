package odata

import (
	"bytes"
	"strconv"
	"strings"
)

// Field is one of the header fields of an operation in a batch.
type Field struct{ Name, Value string }

// Request is an operation in a batch. Body lies in the batch's body.
type Request struct {
	Method string
	Path   Path   // Account is empty: it is the batch's
	Query  string // as it stands behind ?
	Fields []Field
	Body   []byte
}

// Field is the value of the first field of that name, in any case of letters, or empty.
func (r *Request) Field(name string) string {
	for i := range r.Fields {
		if strings.EqualFold(r.Fields[i].Name, name) {
			return r.Fields[i].Value
		}
	}
	return ""
}

// Batch is a $batch's body: the operations of one changeset, or one query.
type Batch struct {
	Requests  []Request
	Changeset bool
}

// RequestError is an error of one operation in a batch: the answer has it as the changeset's only part, with
// the index in front of its message.
type RequestError struct {
	Index int
	Err   *Error
}

// Error is the operation's error.
func (e *RequestError) Error() string { return e.Err.At(e.Index).Error() }

// Unwrap is the operation's error.
func (e *RequestError) Unwrap() error { return e.Err }

// errBatch is what the service says of a batch that it cannot read.
func errBatch() *Error { return newError(InvalidInput) }

// fieldsMax is how many header fields a part may have: clients send about ten.
const fieldsMax = 64

// ParseBatch reads the body of a $batch, whose Content-Type names the boundary: one changeset of writes,
// or one GET outside of a changeset. Lines may end in CRLF or LF. Errors are an *Error for the batch as a
// whole (InvalidInput, RequestBodyTooLarge) or a *RequestError.
func ParseBatch(body []byte, contentType string, l *Limits) (*Batch, error) {
	if len(body) > l.BatchBytes {
		return nil, newError(RequestBodyTooLarge)
	}
	boundary, ok := multipart(contentType)
	if !ok {
		return nil, errBatch()
	}
	parts := splitter{rest: body, boundary: boundary}
	part, ok := parts.next()
	if !ok {
		return nil, errBatch()
	}
	batch, err := parsePart(part, l)
	if err != nil {
		return nil, err
	}
	if _, more := parts.next(); more || !parts.closed {
		return nil, errBatch()
	}
	return batch, nil
}

// parsePart reads the one part that a batch has.
func parsePart(part []byte, l *Limits) (*Batch, error) {
	fields, content, ok := parseFields(part)
	if !ok {
		return nil, errBatch()
	}
	contentType := (&Request{Fields: fields}).Field("Content-Type")
	if boundary, ok := multipart(contentType); ok {
		return parseChangeset(content, boundary, l)
	}
	batch := &Batch{Requests: make([]Request, 1)}
	r := &batch.Requests[0]
	if !isHTTP(contentType) {
		return nil, errBatch()
	}
	if err := r.parse(content); err != nil {
		return nil, err
	}
	if r.Method != "GET" {
		return nil, errBatch()
	}
	return batch, nil
}

func parseChangeset(content []byte, boundary string, l *Limits) (*Batch, error) {
	batch := &Batch{Changeset: true}
	parts := splitter{rest: content, boundary: boundary}
	for part, ok := parts.next(); ok; part, ok = parts.next() {
		if len(batch.Requests) >= l.BatchOperations {
			return nil, &RequestError{Index: l.BatchOperations - 1, Err: invalid(
				"The batch request operation exceeds the maximum " + strconv.Itoa(l.BatchOperations) + " changes per change set.")}
		}
		fields, inner, ok := parseFields(part)
		if !ok || !isHTTP((&Request{Fields: fields}).Field("Content-Type")) {
			return nil, errBatch()
		}
		batch.Requests = append(batch.Requests, Request{})
		r := &batch.Requests[len(batch.Requests)-1]
		if err := r.parse(inner); err != nil {
			return nil, err
		}
		if r.Method == "GET" {
			return nil, errBatch()
		}
	}
	if !parts.closed || len(batch.Requests) == 0 {
		return nil, errBatch()
	}
	return batch, nil
}

// parse reads an application/http part: request line, fields, and the body up to the part's end.
func (r *Request) parse(content []byte) error {
	line, rest, _ := cutLine(content)
	method, more, ok := strings.Cut(string(line), " ")
	end := strings.LastIndexByte(more, ' ')
	if !ok || end < 0 || !strings.HasPrefix(more[end+1:], "HTTP/1.") {
		return errBatch()
	}
	switch method {
	case "GET", "POST", "PUT", "PATCH", "MERGE", "DELETE":
	default:
		return errBatch()
	}
	var err error
	r.Method = method
	if r.Path, r.Query, err = ParseBatchURL(strings.TrimSpace(more[:end])); err != nil {
		return err
	}
	if r.Fields, r.Body, ok = parseFields(rest); !ok {
		return errBatch()
	}
	return nil
}

// multipart is the boundary that a Content-Type of multipart/mixed names.
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

func isHTTP(contentType string) bool {
	mediaType, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(mediaType), "application/http")
}

// cutLine is the first line without its end; ok is false when there is no end.
func cutLine(b []byte) (line, rest []byte, ok bool) {
	line, rest, ok = bytes.Cut(b, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r")), rest, ok
}

// parseFields reads header fields up to an empty line, or to the end.
func parseFields(b []byte) (fields []Field, rest []byte, ok bool) {
	for len(b) > 0 {
		var line []byte
		line, b, _ = cutLine(b)
		if len(line) == 0 {
			break
		}
		name, value, colon := bytes.Cut(line, []byte(":"))
		if !colon || len(name) == 0 || bytes.ContainsAny(name, " \t") || len(fields) == fieldsMax {
			return nil, nil, false
		}
		fields = append(fields, Field{Name: string(name), Value: string(bytes.TrimSpace(value))})
	}
	return fields, b, true
}

// splitter walks the parts of a multipart body: what stands between lines of -- and the boundary.
type splitter struct {
	rest     []byte
	boundary string
	opened   bool // the first boundary is behind us
	closed   bool // and so is the last
}

// next is the next part, without the end of line that belongs to the boundary behind it.
func (s *splitter) next() ([]byte, bool) {
	if s.closed {
		return nil, false
	}
	if !s.opened {
		if _, ok := s.upToBoundary(); !ok || s.closed {
			return nil, false
		}
		s.opened = true
	}
	return s.upToBoundary()
}

// upToBoundary is what stands before the next line that is a boundary, and goes over that line.
func (s *splitter) upToBoundary() ([]byte, bool) {
	for at := 0; at < len(s.rest); {
		line, rest, _ := cutLine(s.rest[at:])
		if is, last := s.delimiter(line); is {
			part := bytes.TrimSuffix(bytes.TrimSuffix(s.rest[:at], []byte("\n")), []byte("\r"))
			s.rest, s.closed = rest, last
			return part, true
		}
		at = len(s.rest) - len(rest)
	}
	return nil, false
}

// delimiter says whether a line is a boundary, and whether it is the last one. White space may follow.
func (s *splitter) delimiter(line []byte) (is, last bool) {
	rest, ok := bytes.CutPrefix(line, []byte("--"))
	if !ok || len(rest) < len(s.boundary) || string(rest[:len(s.boundary)]) != s.boundary {
		return false, false
	}
	rest, last = bytes.CutPrefix(rest[len(s.boundary):], []byte("--"))
	return len(bytes.TrimRight(rest, " \t")) == 0, last
}
