// Package s3 implements package bucket for S3 and services with its interface, with the library minio-go.
//
// The credentials of a node are the first of these that it has; a profile of the location selects the file:
//
//	AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY  keys in the environment, with AWS_SESSION_TOKEN if they are temporary
//	AWS_SHARED_CREDENTIALS_FILE               or ~/.aws/credentials, with the profile AWS_PROFILE
//	none of them                              the role of the machine, container or service account
//
// They need the permissions to list the bucket, and to get, put and delete objects below the prefix. Without the first,
// the service answers 403 instead of 404 for an object that does not exist.
package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"cqld/backup/bucket"
)

// Options name a bucket. None of them is a secret.
type Options struct {
	Bucket string
	// Region is of the bucket. If it is empty, it is taken from the environment (AWS_REGION), or asked for.
	Region string
	// Endpoint is the URL of another service than Amazon's, without a path; empty means Amazon's. Only a URL that
	// begins with http:// turns encryption off.
	Endpoint string
	// Profile is a profile of the file with credentials; empty means AWS_PROFILE, or the default one.
	Profile string
}

// amazon is the endpoint of Amazon's service. The library chooses the host of the region.
const amazon = "https://s3.amazonaws.com"

// Open returns a bucket. It sends no request.
//
// The node has the credentials: in its environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN), in
// the file with credentials, or as the role of its machine, container or service account. Keys sign requests, and are
// not sent, so an endpoint does not learn them.
func Open(o Options) (bucket.Bucket, error) {
	// The variables are the ones that programs of Amazon read.
	endpoint, region := o.Endpoint, o.Region
	if region == "" {
		region = os.Getenv("AWS_REGION")
	}
	if endpoint == "" {
		endpoint = amazon
	} else if region == "" {
		// Other services need none, but it is part of signatures.
		region = "us-east-1"
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, errors.New("the endpoint is not a URL")
	}
	// Requests for credentials may stall as well.
	transport := bucket.Transport()
	providers := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{},
		&credentials.IAM{Client: &http.Client{Transport: transport}, Region: region}}
	// A profile of the location takes precedence over the environment.
	if o.Profile != "" {
		providers = []credentials.Provider{&credentials.FileAWSCredentials{Profile: o.Profile}}
	}
	// Package bucket repeats requests.
	c, err := minio.NewCore(u.Host, &minio.Options{Creds: credentials.New(&credentials.Chain{Providers: providers}),
		Secure: u.Scheme != "http", Transport: transport, Region: region, MaxRetries: 1})
	if err != nil {
		return nil, translate(err)
	}
	return &objects{c, o.Bucket}, nil
}

// objects are the objects of a bucket.
type objects struct {
	core   *minio.Core
	bucket string
}

// Stat implements bucket.Bucket.
func (b *objects) Stat(ctx context.Context, name string) (bucket.Attributes, error) {
	info, err := b.core.StatObject(ctx, b.bucket, name, minio.StatObjectOptions{})
	if err != nil {
		return bucket.Attributes{}, translate(err)
	}
	return bucket.Attributes{Size: info.Size, Modified: info.LastModified}, nil
}

// List implements bucket.Bucket.
func (b *objects) List(ctx context.Context, prefix string, most int) (names []string, err error) {
	o := minio.ListObjectsOptions{Prefix: prefix, MaxKeys: most}
	for info := range b.core.ListObjectsIter(ctx, b.bucket, o) {
		if info.Err != nil {
			return nil, translate(info.Err)
		}
		name := strings.TrimSuffix(strings.TrimPrefix(info.Key, prefix), "/")
		// Programs that show directories create objects with the names of prefixes.
		if name != "" {
			names = append(names, name)
		}
		if most > 0 && len(names) >= most {
			break
		}
	}
	// A list that is not complete would be taken for a store without the rest, and a sweep would remove its objects.
	// The library ends a list whose context has ended without an error.
	return names, ctx.Err()
}

// Read implements bucket.Bucket.
func (b *objects) Read(ctx context.Context, name string, at, n int64) (io.ReadCloser, int64, error) {
	var o minio.GetObjectOptions
	if at > 0 || n > 0 {
		// The last byte of a range is included; an end of 0 means the end of the object.
		end := int64(0)
		if n > 0 {
			end = at + n - 1
		}
		if err := o.SetRange(at, end); err != nil {
			return nil, 0, err
		}
	}
	r, info, header, err := b.core.GetObject(ctx, b.bucket, name, o)
	if err != nil {
		return nil, 0, translate(err)
	}
	size := info.Size
	// The size is of the part; the header says, for example, bytes 5-9/100.
	if _, whole, ok := strings.Cut(header.Get("Content-Range"), "/"); ok {
		if size, err = strconv.ParseInt(whole, 10, 64); err != nil {
			return nil, 0, errors.Join(fmt.Errorf("the size of the object is not a number: %.20q", whole), r.Close())
		}
	}
	return r, size, nil
}

// Write implements bucket.Bucket. Objects are written with one request, which the service executes only if it has
// received all bytes with the hash.
func (b *objects) Write(ctx context.Context, name string, c *bucket.Content) error {
	r, err := c.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	// The hash is known, so that the parts of the content need no signatures of their own.
	o := minio.PutObjectOptions{DisableContentSha256: true, ContentType: "application/octet-stream"}
	_, err = b.core.PutObject(ctx, b.bucket, name, r, c.Size, "", c.SHA256, o)
	if err != nil {
		return translate(err)
	}
	return nil
}

// Remove implements bucket.Bucket.
func (b *objects) Remove(ctx context.Context, name string) error {
	// In a bucket with versions, the former ones stay: rules of the bucket remove them.
	if err := b.core.RemoveObject(ctx, b.bucket, name, minio.RemoveObjectOptions{}); err != nil {
		return translate(err)
	}
	return nil
}

// translate returns the error of package bucket for an error of the library.
func translate(err error) error {
	var answer minio.ErrorResponse
	// The library also describes its own errors in this way, without a status.
	if !errors.As(err, &answer) || answer.StatusCode == 0 {
		return bucket.Lost(err)
	}
	switch {
	// A bucket that does not exist is no place without objects.
	case answer.StatusCode == http.StatusNotFound && answer.Code != minio.NoSuchBucket:
		return fmt.Errorf("the object store has no such object: %w", fs.ErrNotExist)
	// The object is shorter than it was.
	case answer.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return fmt.Errorf("the object is too short: %w", io.ErrUnexpectedEOF)
	}
	text := answer.Message
	if answer.Code == minio.AccessDenied {
		text = "The credentials of the node do not suffice: they need the permissions to list the bucket, and to " +
			"get, put and delete objects below the prefix."
	}
	return &bucket.Refusal{Status: answer.StatusCode, Code: answer.Code, Message: text}
}
