package azuretables

import "cqld/azuretables/odata"

// links writes the URLs and ETags of a response. Its URLs have the form in which the client addressed the service. It
// belongs to one call.
type links struct {
	tls     bool   // the request was encrypted, so URLs begin with https
	host    string // of the request, with its port
	account string // first element of the path, as the client wrote it; empty if the host name names the account
	scratch []byte // kept between requests
}

// root returns the URL of the service, without a trailing slash. It is called once per response, and its result is a
// copy. For example http://127.0.0.1:10002/devstoreaccount1.
func (l *links) root() string {
	b := append(l.scratch[:0], "http"...)
	if l.tls {
		b = append(b, 's')
	}
	b = append(append(b, "://"...), l.host...)
	if l.account != "" {
		b = append(append(b, '/'), l.account...)
	}
	l.scratch = b
	return string(b)
}

// entity returns the URL of an entity below root; it is valid until the next call of a method. The result is in
// scratch. odata.AppendLink percent-encodes the keys. For example …/t(PartitionKey='p',RowKey='r').
func (l *links) entity(root, table, partitionKey, rowKey string) []byte {
	b := append(append(l.scratch[:0], root...), '/')
	// Kept, because append may have moved the memory.
	l.scratch = odata.AppendLink(b, table, partitionKey, rowKey)
	return l.scratch
}

// etag returns the ETag of an entity with the given Timestamp, in ticks. It includes the quotation marks.
func (l *links) etag(ticks int64) string {
	l.scratch = odata.AppendETag(l.scratch[:0], ticks)
	return string(l.scratch)
}
