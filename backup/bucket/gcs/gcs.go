// Package gcs implements package bucket for Google Cloud Storage.
//
// It is a client of the JSON interface (v1) of its own, for the five requests that package bucket needs, because
// Google's library links gRPC and telemetry. Credentials are found by the library golang.org/x/oauth2/google, where
// programs of Google expect them (Application Default Credentials):
//
//	GOOGLE_APPLICATION_CREDENTIALS            a file with the key of a service account, or a federated identity
//	~/.config/gcloud/…                        what gcloud auth application-default login has stored
//	none of them                              the service account of the machine or pod
//
// As in Google's libraries, the environment variable STORAGE_EMULATOR_HOST names a server for tests, which gets no
// credentials.
//
// What the package requires of a bucket: it exists, and the credentials may list, get, create and delete its objects.
package gcs

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"cqld/backup/bucket"
)

const (
	// service is the endpoint of Google's service.
	service = "https://storage.googleapis.com"
	// answerBytesMax bounds an answer that is not the content of an object. A page of a list has 1,000 names of at most
	// 1 KiB, which are escaped.
	answerBytesMax = 8 << 20
)

// Open returns the bucket with a name. It sends no request, also none for credentials: the ones that are wrong are
// errors of the first request. The name may contain any character, because it is escaped.
func Open(name string) (bucket.Bucket, error) {
	transport := bucket.Transport()
	b := &objects{endpoint: service, bucket: url.PathEscape(name),
		client: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			// Tokens stay where they are sent.
			return http.ErrUseLastResponse
		}}}
	host := os.Getenv("STORAGE_EMULATOR_HOST")
	if host == "" {
		b.tokens = &tokens{transport: transport}
		return b, nil
	}
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	u, err := url.Parse(host)
	if err != nil || u.Host == "" {
		return nil, errors.New("STORAGE_EMULATOR_HOST of the node is neither HOST:PORT nor a URL")
	}
	b.endpoint = u.Scheme + "://" + u.Host
	return b, nil
}

// objects are the objects of a bucket.
type objects struct {
	endpoint string // without a slash at the end
	bucket   string // escaped
	client   *http.Client
	tokens   *tokens // nil means that requests have none
}

// Stat implements bucket.Bucket. Only two properties are asked for: a credential that may read an object may see them.
func (b *objects) Stat(ctx context.Context, name string) (bucket.Attributes, error) {
	var o struct {
		Size    int64 `json:",string"`
		Updated time.Time
	}
	err := b.ask(ctx, b.request("GET", b.object(name), url.Values{"fields": {"size,updated"}}), &o)
	if err != nil {
		return bucket.Attributes{}, absent(err)
	}
	return bucket.Attributes{Size: o.Size, Modified: o.Updated}, nil
}

// List implements bucket.Bucket. The service divides names at the delimiter, and is strongly consistent: an object that
// was written or removed before the request is in the list or is not.
func (b *objects) List(ctx context.Context, prefix string, most int) (names []string, err error) {
	query := url.Values{"prefix": {prefix}, "delimiter": {"/"}, "fields": {"items(name),prefixes,nextPageToken"}}
	if most > 0 {
		query.Set("maxResults", strconv.Itoa(min(most, 1000)))
	}
	for {
		var page struct {
			Items         []struct{ Name string }
			Prefixes      []string
			NextPageToken string
		}
		if err := b.ask(ctx, b.request("GET", b.endpoint+"/storage/v1/b/"+b.bucket+"/o", query), &page); err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			page.Prefixes = append(page.Prefixes, item.Name)
		}
		for _, name := range page.Prefixes {
			// Programs that show directories create objects with the names of prefixes.
			if part := strings.TrimSuffix(strings.TrimPrefix(name, prefix), "/"); part != "" {
				names = append(names, part)
			}
		}
		// A page may be empty although others follow.
		if page.NextPageToken == "" || most > 0 && len(names) >= most {
			break
		}
		query.Set("pageToken", page.NextPageToken)
	}
	// An object and a prefix may have the same name.
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Read implements bucket.Bucket. The service sends the bytes as they are stored, because cqld sets no encoding of
// contents when it writes.
func (b *objects) Read(ctx context.Context, name string, at, n int64) (io.ReadCloser, int64, error) {
	r := b.request("GET", b.object(name), url.Values{"alt": {"media"}})
	switch {
	// The last byte of a range is included.
	case n > 0:
		r.header.Set("Range", fmt.Sprintf("bytes=%d-%d", at, at+n-1))
	case at > 0:
		r.header.Set("Range", fmt.Sprintf("bytes=%d-", at))
	}
	answer, err := b.send(ctx, r)
	if err != nil {
		return nil, 0, absent(err)
	}
	size := answer.ContentLength
	// The length is of the part; the range is, for example, bytes 5-9/100.
	if _, whole, ok := strings.Cut(answer.Header.Get("Content-Range"), "/"); ok {
		size, err = strconv.ParseInt(whole, 10, 64)
	}
	if err != nil || size < 0 {
		return nil, 0, errors.Join(errors.New("the object store states no size of the object"), err,
			answer.Body.Close())
	}
	return answer.Body, size, nil
}

// Write implements bucket.Bucket, and reads the content twice. Objects are written with one request, which the service
// executes only if it has received all bytes with the CRC32C checksum. That is no protection against intent, but the
// SHA-256 of the content is compared before the last bytes are sent.
func (b *objects) Write(ctx context.Context, name string, c *bucket.Content) error {
	sum, err := c.Checksum(crc32.New(crc32.MakeTable(crc32.Castagnoli)))
	if err != nil {
		return err
	}
	properties, err := json.Marshal(map[string]string{"name": name, "crc32c": base64.StdEncoding.EncodeToString(sum)})
	if err != nil {
		return err
	}
	// Two parts: the properties, and the content. Writing to a buffer does not fail.
	var frame bytes.Buffer
	parts := multipart.NewWriter(&frame)
	part := func(kind string) io.Writer {
		w, _ := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {kind}})
		return w
	}
	_, _ = part("application/json; charset=UTF-8").Write(properties)
	part("application/octet-stream")
	head := bytes.Clone(frame.Bytes())
	_ = parts.Close()
	tail := frame.Bytes()[len(head):]
	content, err := c.Open()
	if err != nil {
		return err
	}
	// The transport may read the body until it has closed it, so it closes the content.
	body := struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), content, bytes.NewReader(tail)), content}
	r := b.request("POST", b.endpoint+"/upload/storage/v1/b/"+b.bucket+"/o",
		url.Values{"uploadType": {"multipart"}, "fields": {"size"}})
	r.header.Set("Content-Type", "multipart/related; boundary="+parts.Boundary())
	r.body, r.size = body, int64(len(head)+len(tail))+c.Size
	return b.ask(ctx, r, nil)
}

// Remove implements bucket.Bucket. The service answers 404 if there is no such object.
func (b *objects) Remove(ctx context.Context, name string) error {
	// Where versions or deleted objects are kept, rules of the bucket remove them.
	return absent(b.ask(ctx, b.request("DELETE", b.object(name), nil), nil))
}

// object returns the URL of an object.
func (b *objects) object(name string) string {
	return b.endpoint + "/storage/v1/b/" + b.bucket + "/o/" + url.PathEscape(name)
}
