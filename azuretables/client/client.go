package client

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client sends requests to one node for one account. It is safe for concurrent use.
type Client struct {
	base    string // http://host:port
	account string
	// The decoded account key. Shared by all requests, read only.
	key  []byte
	http *http.Client
}

// Request is a request for a path below the account. Headers in Header replace nothing that the client sets afterwards:
// the version, the date and the signature.
type Request struct {
	Method      string
	Path        string // percent-encoded, with a leading slash: /Tables
	Query       string // percent-encoded, without the question mark
	Body        []byte
	ContentType string // of Body; empty means application/json
	// An ETag, or * for any; empty means that the header is not sent, which makes PUT and PATCH upserts.
	IfMatch string
	Header  map[string]string // additional headers
}

// Response is the response to a Request. The body has been read, so nothing must be closed.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// New returns a client of the account at base, http://host:port, with at most the given number of idle connections; key
// is base64. Connections are kept for a minute of idleness.
func New(base, account, key string, connections int) (*Client, error) {
	secret, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		return nil, fmt.Errorf("client: the key of account %s is not base64: %w", account, err)
	}
	// The account is added to the path, so base must not have one.
	if u, err := url.Parse(base); err != nil || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return nil, fmt.Errorf("client: %q is not http://host:port", base)
	}
	// DisableCompression keeps the transport from asking for gzip.
	t := &http.Transport{MaxIdleConnsPerHost: connections, MaxIdleConns: connections, DisableCompression: true,
		IdleConnTimeout: time.Minute}
	return &Client{base: strings.TrimSuffix(base, "/"), account: account, key: secret,
		http: &http.Client{Transport: t}}, nil
}

// SetTransport makes c send its requests through t instead of its own connections. Call it before the first request. It
// serves tests that inject faults.
func (c *Client) SetTransport(t http.RoundTripper) { c.http.Transport = t }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Do sends a request and reads the whole response. An error concerns the connection: an error response is not an error.
// The whole response is in memory.
func (c *Client) Do(ctx context.Context, r Request) (*Response, error) {
	target := "/" + c.account + r.Path
	address := c.base + target
	if r.Query != "" {
		address += "?" + r.Query
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, address, bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	h := req.Header
	for name, value := range r.Header {
		h.Set(name, value)
	}
	contentType := r.ContentType
	if contentType == "" && len(r.Body) > 0 {
		contentType = "application/json"
	}
	if contentType != "" {
		h.Set("Content-Type", contentType)
	}
	if r.IfMatch != "" {
		h.Set("If-Match", r.IfMatch)
	}
	// A caller may request other metadata by Header.
	if h.Get("Accept") == "" {
		h.Set("Accept", "application/json;odata=nometadata")
	}
	h.Set("x-ms-version", "2019-02-02")
	h.Set("DataServiceVersion", "3.0")
	// The date is part of the signature, so both use one text.
	date := time.Now().UTC().Format(http.TimeFormat)
	h.Set("x-ms-date", date)
	h.Set("Authorization", "SharedKey "+c.account+":"+Sign(c.key,
		StringToSign(r.Method, contentType, date, c.account, target, r.Query)))
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return &Response{Status: resp.StatusCode, Header: resp.Header, Body: body}, nil
}

// StringToSign returns the text that a SharedKey signature of the Table service covers: method, Content-MD5 (none
// here), Content-Type, date, and the resource: account, path, and the query's comp. SharedKeyLite has a shorter text
// and is not supported here. For a query of the table t of the account a, for example:
//
//	GET
//	(an empty line)
//	(an empty line)
//	Sun, 29 Nov 2026 20:00:00 GMT
//	/a/a/t()
func StringToSign(method, contentType, date, account, path, query string) string {
	resource := "/" + account + path
	// Other parameters are not signed.
	for p := range strings.SplitSeq(query, "&") {
		if value, ok := strings.CutPrefix(p, "comp="); ok {
			resource += "?comp=" + value
		}
	}
	return method + "\n\n" + contentType + "\n" + date + "\n" + resource
}

// Sign returns the signature of text, in base64. It is HMAC-SHA256.
func Sign(key []byte, text string) string {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(m.Sum(nil))
}

// Code returns the service's error code of an error response; empty if it has none. For example EntityAlreadyExists.
func (r *Response) Code() string {
	var e struct {
		Error struct {
			Code string `json:"code"`
		} `json:"odata.error"`
	}
	if json.Unmarshal(r.Body, &e) != nil {
		return ""
	}
	return e.Error.Code
}

// Err returns nil if the status is one of statuses, and otherwise an error that shows the response. It shows at most
// 300 bytes.
func (r *Response) Err(statuses ...int) error {
	for _, s := range statuses {
		if r.Status == s {
			return nil
		}
	}
	return fmt.Errorf("client: status %d: %.300s", r.Status, r.Body)
}

// EntityPath returns the path of an entity. Both keys are quoted as in OData; they may be empty. The key it's becomes
// it%27%27s, for example.
func EntityPath(table, partitionKey, rowKey string) string {
	return "/" + table + "(PartitionKey='" + escape(partitionKey) + "',RowKey='" + escape(rowKey) + "')"
}

// escape doubles quotation marks and escapes a key for a path. The quotation mark is doubled before it is escaped.
func escape(key string) string { return url.PathEscape(strings.ReplaceAll(key, "'", "''")) }
