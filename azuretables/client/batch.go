package client

import (
	"bytes"
	"strconv"
	"strings"
)

// Change is one operation of a transaction. Changes of one transaction have the same PartitionKey and different
// RowKeys.
type Change struct {
	Method string // POST inserts, PUT and PATCH update or upsert, DELETE deletes
	// PartitionKey and RowKey identify the entity, except for an insert, whose body contains them.
	PartitionKey, RowKey string
	Body                 []byte // JSON
	// As in Request.
	IfMatch string
}

// Azurite accepts only boundaries with the prefixes that the SDKs use.
const batchBoundary, changesetBoundary = "batch_cqld", "changeset_cqld"

// Transaction returns the request that applies changes of one partition atomically. Accept and Prefer are set in each
// part, since headers of the outer request do not apply to parts. The body is:
//
//	--batch_cqld               the outer part
//	--changeset_cqld           for each change
//	  headers of the part
//	  PUT http://localhost/t(PartitionKey='p',RowKey='r') HTTP/1.1
//	  headers and body of the change
//	--changeset_cqld--
//	--batch_cqld--
func Transaction(table string, changes []Change) Request {
	var b bytes.Buffer
	b.WriteString("--" + batchBoundary + "\r\nContent-Type: multipart/mixed; boundary=" + changesetBoundary +
		"\r\n\r\n")
	for _, c := range changes {
		// A host is required in the URL of a part, and is ignored.
		path := "/" + table
		// The URL of an insert is the table's: its body contains the keys.
		if c.Method != "POST" {
			path = EntityPath(table, c.PartitionKey, c.RowKey)
		}
		b.WriteString("--" + changesetBoundary + "\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: " +
			"binary\r\n\r\n")
		b.WriteString(c.Method + " http://localhost" + path +
			" HTTP/1.1\r\nPrefer: return-no-content\r\nAccept: application/json;odata=nometadata\r\n")
		if c.IfMatch != "" {
			b.WriteString("If-Match: " + c.IfMatch + "\r\n")
		}
		// A DELETE has no body.
		if c.Body != nil {
			b.WriteString("Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(c.Body)) + "\r\n")
		}
		b.WriteString("\r\n")
		b.Write(c.Body)
		b.WriteString("\r\n")
	}
	b.WriteString("--" + changesetBoundary + "--\r\n--" + batchBoundary + "--\r\n")
	return Request{Method: "POST", Path: "/$batch", Body: b.Bytes(), ContentType: "multipart/mixed; boundary=" +
		batchBoundary}
}

// Statuses returns the statuses of a transaction's response: one for each change, or a single one for a refusal. A
// transaction that is refused has one part, with the index of the change in its message.
func (r *Response) Statuses() []int {
	var out []int
	for part := range strings.SplitSeq(string(r.Body), "HTTP/1.1 ") {
		if n, err := strconv.Atoi(part[:min(3, len(part))]); err == nil {
			out = append(out, n)
		}
	}
	return out
}
