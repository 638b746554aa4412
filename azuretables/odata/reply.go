package odata

import "strconv"

// Reply is the response to one operation of a batch. Empty fields are omitted. The strings must contain no line
// breaks.
type Reply struct {
	Status            int    // HTTP status
	NoCache           bool   // Cache-Control: no-cache; all responses except the one for a missing table contain it
	PreferenceApplied string // return-no-content, return-content
	Version           string // DataServiceVersion: 3.0 or 1.0, without the semicolon that the service writes
	ContentType       string
	Location          string
	DataServiceID     string
	ETag              string
	Body              []byte
}

// AppendReplies appends the body of the response to a batch: the replies in a changeset, or outside one if the batch
// was a query. batch and changeset are the boundaries, batchresponse_… and changesetresponse_…. Lines end in CRLF,
// which multipart requires. A query has one reply.
//
// Boundaries contain a GUID in the service; here they must only not occur in a body.
func AppendReplies(dst []byte, batch, changeset string, inChangeset bool, replies []Reply) []byte {
	boundary := batch
	// The parts of a query are directly in the batch.
	if inChangeset {
		boundary = changeset
		dst = appendDelimiter(dst, batch, "")
		dst = append(dst, "Content-Type: multipart/mixed; boundary="...)
		dst = append(dst, changeset...)
		dst = append(dst, "\r\n\r\n"...)
	}
	for i := range replies {
		dst = appendDelimiter(dst, boundary, "")
		dst = append(dst, "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"...)
		dst = replies[i].append(dst)
		// The line ending belongs to the next boundary.
		dst = append(dst, "\r\n"...)
	}
	if inChangeset {
		dst = appendDelimiter(dst, changeset, "--")
	}
	return appendDelimiter(dst, batch, "--")
}

// appendDelimiter appends a boundary line; end is "--" for the last one. The line ending before it is the caller's.
func appendDelimiter(dst []byte, boundary, end string) []byte {
	dst = append(dst, "--"...)
	dst = append(dst, boundary...)
	dst = append(dst, end...)
	return append(dst, "\r\n"...)
}

// append appends the reply as an HTTP response, with the headers in the order of the recordings. The reply ends without
// a line ending.
func (r *Reply) append(dst []byte) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(r.Status), 10)
	dst = append(dst, ' ')
	dst = append(dst, reason(r.Status)...)
	// Every recorded reply has this header.
	dst = append(dst, "\r\nX-Content-Type-Options: nosniff\r\n"...)
	if r.NoCache {
		dst = append(dst, "Cache-Control: no-cache\r\n"...)
	}
	dst = appendField(dst, "Preference-Applied", r.PreferenceApplied, "")
	dst = appendField(dst, "DataServiceVersion", r.Version, ";")
	dst = appendField(dst, "Content-Type", r.ContentType, "")
	dst = appendField(dst, "Location", r.Location, "")
	dst = appendField(dst, "DataServiceId", r.DataServiceID, "")
	dst = appendField(dst, "ETag", r.ETag, "")
	dst = append(dst, "\r\n"...)
	// There is no Content-Length: the boundary ends the body.
	return append(dst, r.Body...)
}

// appendField appends a header, unless value is empty. end follows the value. Names have the service's spelling.
func appendField(dst []byte, name, value, end string) []byte {
	// An empty header would differ from the service's responses.
	if value == "" {
		return dst
	}
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	dst = append(dst, end...)
	return append(dst, "\r\n"...)
}

// reason returns the reason phrase of a status. Phrases are the recorded ones, which for 413 and 415 are the old
// names. Others count as 500.
func reason(status int) string {
	switch status {
	case 200:
		return "OK"
	case 201:
		return "Created"
	case 202:
		return "Accepted"
	case 204:
		return "No Content"
	case 400:
		return "Bad Request"
	case 403:
		return "Forbidden"
	case 404:
		return "Not Found"
	case 405:
		return "Method Not Allowed"
	case 409:
		return "Conflict"
	case 412:
		return "Precondition Failed"
	case 413:
		return "Request Entity Too Large"
	case 415:
		return "Unsupported Media Type"
	case 501:
		return "Not Implemented"
	case 503:
		return "Service Unavailable"
	}
	return "Internal Server Error"
}
