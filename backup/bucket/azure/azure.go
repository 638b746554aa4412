// Package azure implements package bucket for Azure Blob Storage, with the library azblob of Microsoft.
//
// An object is a block blob that one request (Put Blob) writes. Directories are virtual: the service lists names up to
// the next slash. What the package requires of an account:
//
//  1. The container exists. The package creates and removes none.
//  2. The credentials permit to read, write, delete and list blobs of the container.
//  3. No rule of the account moves the blobs to the archive tier, where they cannot be read.
//
// The credentials of a node are the first of these that it has:
//
//	AZURE_STORAGE_CONNECTION_STRING          a key or a signature, and the endpoint
//	AZURE_STORAGE_KEY                        signs requests (SharedKey), and is not sent
//	AZURE_STORAGE_SAS_TOKEN                  a signature in the URL of each request
//	AZURE_CLIENT_SECRET                      an application in Microsoft Entra ID
//	AZURE_FEDERATED_TOKEN_FILE               the workload identity of a pod
//	none of them                             the managed identity of the machine
//
// The library sends each request once: package bucket repeats requests, and its transport ends the ones that stall.
package azure

import (
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"cqld/backup/bucket"
)

// Options name a container. None of them is a secret.
type Options struct {
	Container string
	// Account is the name of the storage account. If it is empty, it is taken from the environment
	// (AZURE_STORAGE_ACCOUNT or AZURE_STORAGE_CONNECTION_STRING).
	Account string
	// Endpoint is the URL of the service, without a path; empty means the one of the connection string, or the public
	// cloud. If its host does not begin with the account and a dot, the account is the first part of the path. Only a
	// URL that begins with http:// turns encryption off.
	Endpoint string
}

// Open returns a bucket. It sends no request.
//
// The node has the credentials, in its environment or as what its machine is assigned; credentials.go describes them.
// Keys of accounts sign requests, and are not sent. Tokens are sent, but only to Azure and to an endpoint that the
// environment names: the endpoint of a location cannot learn them.
func Open(o Options) (bucket.Bucket, error) {
	client, err := connect(o)
	if err != nil {
		return nil, err
	}
	return &objects{client}, nil
}

// objects are the blobs of a container.
type objects struct{ container *container.Client }

// Stat implements bucket.Bucket.
func (b *objects) Stat(ctx context.Context, name string) (bucket.Attributes, error) {
	p, err := b.container.NewBlobClient(name).GetProperties(ctx, nil)
	if err != nil {
		return bucket.Attributes{}, translate(err)
	}
	if p.ContentLength == nil || p.LastModified == nil {
		return bucket.Attributes{}, errors.New("the object store states no size or time of an object")
	}
	return bucket.Attributes{Size: *p.ContentLength, Modified: *p.LastModified}, nil
}

// List implements bucket.Bucket.
func (b *objects) List(ctx context.Context, prefix string, most int) (names []string, err error) {
	o := &container.ListBlobsHierarchyOptions{Prefix: &prefix}
	if most > 0 {
		n := int32(min(most, 5000))
		o.MaxResults = &n
	}
	add := func(name *string) {
		// Programs that show directories create objects with the names of prefixes.
		if name != nil {
			if part := strings.TrimSuffix(strings.TrimPrefix(*name, prefix), "/"); part != "" {
				names = append(names, part)
			}
		}
	}
	// A page may be empty although others follow: the service ends a page after a time, too.
	for pages := b.container.NewListBlobsHierarchyPager("/", o); pages.More(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, translate(err)
		}
		if page.Segment == nil {
			return nil, errors.New("the object store answers a list without its objects")
		}
		for _, item := range page.Segment.BlobItems {
			add(item.Name)
		}
		for _, p := range page.Segment.BlobPrefixes {
			add(p.Name)
		}
		if most > 0 && len(names) >= most {
			break
		}
	}
	// An object and a prefix may have the same name.
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Read implements bucket.Bucket.
func (b *objects) Read(ctx context.Context, name string, at, n int64) (io.ReadCloser, int64, error) {
	// A count of 0 means up to the end.
	o := &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: at, Count: n}}
	answer, err := b.container.NewBlobClient(name).DownloadStream(ctx, o)
	if err != nil {
		return nil, 0, translate(err)
	}
	var size int64
	switch {
	case answer.ContentRange != nil:
		// The length is of the part; the range is, for example, bytes 5-9/100.
		_, whole, _ := strings.Cut(*answer.ContentRange, "/")
		size, err = strconv.ParseInt(whole, 10, 64)
	case answer.ContentLength != nil:
		size = *answer.ContentLength
	default:
		err = errors.New("there is none")
	}
	if err != nil {
		err = fmt.Errorf("the size of the object is not a number: %w", err)
		return nil, 0, errors.Join(err, answer.Body.Close())
	}
	return answer.Body, size, nil
}

// Write implements bucket.Bucket, and reads the content twice. Objects are written with one request, which the service
// executes only if it has received all bytes with the MD5 hash. That hash is no protection against intent, but the
// SHA-256 of the content is compared before the last bytes are sent.
func (b *objects) Write(ctx context.Context, name string, c *bucket.Content) error {
	sum, err := c.Checksum(md5.New())
	if err != nil {
		return err
	}
	r := &rewound{content: c}
	o := &blockblob.UploadOptions{TransactionalValidation: blob.TransferValidationTypeMD5(sum)}
	_, err = b.container.NewBlockBlobClient(name).Upload(ctx, r, o)
	if err != nil {
		// The library hides the error of the content.
		if failed := r.reason(); failed != nil {
			err = failed
		}
		return translate(err)
	}
	return nil
}

// Remove implements bucket.Bucket.
func (b *objects) Remove(ctx context.Context, name string) error {
	// Where versions or deleted blobs are kept, rules of the account remove them.
	if _, err := b.container.NewBlobClient(name).Delete(ctx, nil); err != nil {
		return translate(err)
	}
	return nil
}

// rewound is a content for the library, which seeks to learn the size, and to begin. The content is opened when its
// first byte is read. The library closes it when the request has ended; the transport may still be reading it then, if
// the service has answered early.
type rewound struct {
	content *bucket.Content
	mu      sync.Mutex    // not held while the content is read
	body    io.ReadCloser // nil before the first byte is read
	closed  bool
	failed  error // of reading the content
}

// Seek implements io.Seeker for the two positions that the library uses: the end, for the size, and the beginning. Any
// other position is an error. The library seeks only before it sends the request.
func (r *rewound) Seek(offset int64, whence int) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if offset != 0 || r.body != nil {
		return 0, errors.New("the position in an object is neither its beginning nor its end")
	}
	if whence == io.SeekEnd {
		return r.content.Size, nil
	}
	return 0, nil
}

// open returns the content, and opens it before the first byte.
func (r *rewound) open() (io.ReadCloser, error) {
	r.mu.Lock()
	body, closed := r.body, r.closed
	r.mu.Unlock()
	if closed {
		return nil, fs.ErrClosed
	}
	if body != nil {
		return body, nil
	}
	body, err := r.content.Open()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errors.Join(fs.ErrClosed, body.Close())
	}
	r.body = body
	return body, nil
}

// Read implements io.Reader. It is called by one goroutine, the transport's.
func (r *rewound) Read(b []byte) (n int, err error) {
	body, err := r.open()
	if err == nil {
		n, err = body.Read(b)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		r.mu.Lock()
		defer r.mu.Unlock()
		// What fails after the end of the request is not its reason.
		if !r.closed {
			r.failed = err
		}
	}
	return n, err
}

// Close implements io.Closer.
func (r *rewound) Close() error {
	r.mu.Lock()
	body, closed := r.body, r.closed
	r.closed = true
	r.mu.Unlock()
	if body == nil || closed {
		return nil
	}
	return body.Close()
}

// reason returns the error of reading the content, or nil.
func (r *rewound) reason() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}
