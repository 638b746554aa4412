package backup

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/backup/bucket"
	"cqld/backup/bucket/azure"
	"cqld/backup/bucket/gcs"
	"cqld/backup/bucket/s3"
	"cqld/storage/encryption"
)

// Store is a directory or a bucket that holds backups. It is safe for concurrent use.
type Store struct {
	files  *sealedFiles
	memory *Memory // nil means no bound
	// location is the URL, which contains no credentials (CheckLocation).
	location string
	// sequential means that it has one request at a time in progress, in the goroutine of the caller.
	sequential bool
}

// CheckLocation returns why a text is not the URL of a store. URLs are in jobs, logs and messages between nodes, so one
// that contains credentials is refused; the error does not repeat it.
func CheckLocation(location string) error {
	_, err := parseLocation(location)
	return err
}

// parameters returns the parameters of URLs by their scheme. None of them is a secret: each node has credentials of its
// own. None of them sends a token elsewhere: gs has no endpoint, and azblob checks it.
func parameters() map[string][]string {
	return map[string][]string{"file": nil, "s3": {"region", "endpoint", "profile"}, "azblob": {"account", "endpoint"},
		"gs": nil}
}

// errNotURL returns the error for a text that is not a URL. It does not repeat the text, which may contain a password.
func errNotURL() error {
	return errors.New("backup: the location is not a URL; examples are file:///mnt/backups and s3://BUCKET/PREFIX")
}

// parseLocation parses the URL of a store.
func parseLocation(location string) (*url.URL, error) {
	u, err := url.Parse(location)
	if err != nil {
		// The error of url.Parse has the text, which may contain a password.
		return nil, errNotURL()
	}
	allowed, ok := parameters()[u.Scheme]
	// Credentials are first: no other error may show a text that contains them.
	switch {
	case u.User != nil:
		return nil, errors.New("backup: the location contains credentials: remove the user and password")
	case u.Scheme == "":
		return nil, errNotURL()
	case !ok:
		return nil, fmt.Errorf("backup: locations of kind %.20q are not supported: use s3://BUCKET/PREFIX, "+
			"gs://BUCKET/PREFIX, azblob://CONTAINER/PREFIX, or a directory that all nodes have mounted, as "+
			"file:///DIRECTORY", u.Scheme)
	case u.Fragment != "":
		return nil, fmt.Errorf("backup: a location has no fragment: remove the part after %q", "#")
	}
	if err := checkParameters(u, allowed); err != nil {
		return nil, err
	}
	// From here on, the location may be in errors.
	if u.Scheme == "file" {
		return u, checkDirectory(u)
	}
	return u, checkBucket(u)
}

// checkParameters returns an error for parameters that are not allowed. Their values may be secrets.
func checkParameters(u *url.URL, allowed []string) error {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return errors.New("backup: the parameters of the location cannot be read")
	}
	if len(query) > 0 && len(allowed) == 0 {
		return fmt.Errorf("backup: a location of kind %s has no parameters: remove the part after %q", u.Scheme, "?")
	}
	for name, values := range query {
		// A parameter that is there twice has two meanings. The error names neither it nor its value.
		if !slices.Contains(allowed, name) || len(values) > 1 {
			return fmt.Errorf("backup: the location has a parameter that is not allowed, or has it twice. Credentials "+
				"belong to the nodes. Allowed are %s", strings.Join(allowed, ", "))
		}
		if name == "endpoint" {
			if err := checkEndpoint(values[0]); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkEndpoint returns an error unless a text is the URL of a service.
func checkEndpoint(text string) error {
	e, err := url.Parse(text)
	// A path would be lost, and parameters are where signatures are.
	if err != nil || e.User != nil || e.RawQuery != "" || e.Fragment != "" || e.Host == "" ||
		strings.Trim(e.Path, "/") != "" || e.Scheme != "https" && e.Scheme != "http" {
		return errors.New("backup: the endpoint of the location is not the URL of a service, such as " +
			"https://s3.example.com, or contains credentials")
	}
	return nil
}

// checkDirectory returns an error for URLs of directories that are none.
func checkDirectory(u *url.URL) error {
	switch {
	case u.Host != "":
		return fmt.Errorf("backup: the location %s names a host: a directory has three slashes, file:///%s%s", u,
			u.Host, u.Path)
	case len(u.Path) < 2:
		return fmt.Errorf("backup: the location %s names no directory", u)
	}
	return nil
}

// checkBucket returns an error for URLs of buckets that are none, or whose names are not plain.
func checkBucket(u *url.URL) error {
	if u.Host == "" || u.Port() != "" {
		return fmt.Errorf("backup: the location names no bucket; an example is %s://BUCKET/PREFIX", u.Scheme)
	}
	for part := range strings.SplitSeq(strings.Trim(u.Path, "/"), "/") {
		// Services and libraries clean such paths in different ways.
		if part == "." || part == ".." || part == "" && strings.Trim(u.Path, "/") != "" {
			return errors.New("backup: the prefix of the location has an empty part, or one of only dots")
		}
	}
	return nil
}

// newStore returns a store with these files.
func (p Places) newStore(f files, location string) *Store {
	return &Store{files: &sealedFiles{files: f, keys: p.Keys}, memory: p.Memory, location: location}
}

// Places open stores. Disk contains the directories. Keys encrypt new stores, and are needed to read encrypted ones;
// nil means that there are none. The stores share Memory; nil means that it has no bound.
type Places struct {
	Disk   vfs.FS
	Keys   *encryption.Keys
	Memory *Memory
}

// Memory returns the memory that the store uses, which may be nil.
func (s *Store) Memory() *Memory { return s.memory }

// Open opens the store at a URL. It creates nothing, and keeps nothing open: each operation opens the files that it
// needs.
func (p Places) Open(location string) (*Store, error) {
	u, err := parseLocation(location)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "file" {
		return p.openDirectory(u, location)
	}
	b, err := openBucket(u)
	if err != nil {
		return nil, fmt.Errorf("backup: open %s: %w", location, err)
	}
	// Names of objects begin with no slash.
	prefix := strings.Trim(u.Path, "/")
	if prefix != "" {
		prefix += "/"
	}
	return p.newStore(bucketFiles{bucket.Repeat(b), prefix}, location), nil
}

// OpenBucket opens the store that is a whole bucket; location is its name in errors. It has one request at a time in
// progress, in the goroutine of its caller: the requests of a simulation have one order.
func OpenBucket(b *bucket.Repeated, location string) *Store {
	s := Places{}.newStore(bucketFiles{bucket: b}, location)
	s.sequential = true
	return s
}

// OpenDirectory opens the store in a directory of a file system, which exists; location is its name in errors. As with
// OpenBucket, it has one operation at a time in progress, in the goroutine of its caller.
func OpenDirectory(disk vfs.FS, dir, location string) *Store {
	s := Places{}.newStore(directory{disk, dir}, location)
	s.sequential = true
	return s
}

// openBucket opens the bucket of a URL, whose parameters were compared with the list. It sends no request: a bucket
// that does not exist, and wrong credentials, are errors of the first request.
func openBucket(u *url.URL) (bucket.Bucket, error) {
	query := u.Query()
	switch u.Scheme {
	case "azblob":
		return azure.Open(azure.Options{Container: u.Host, Account: query.Get("account"),
			Endpoint: query.Get("endpoint")})
	case "gs":
		return gcs.Open(u.Host)
	}
	return s3.Open(s3.Options{Bucket: u.Host, Region: query.Get("region"), Endpoint: query.Get("endpoint"),
		Profile: query.Get("profile")})
}

// openDirectory opens the store in a directory.
func (p Places) openDirectory(u *url.URL, location string) (*Store, error) {
	dir := filepath.Clean(filepath.FromSlash(u.Path))
	// A directory that is missing is probably one that is not mounted.
	info, err := p.Disk.Stat(dir)
	if missing(err) {
		return nil, fmt.Errorf("backup: open %s: %w; create or mount the directory first", location, err)
	}
	if err != nil {
		return nil, fmt.Errorf("backup: open %s: %w%s", location, err, advice(err))
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("backup: open %s: it is not a directory", location)
	}
	return p.newStore(directory{p.Disk, dir}, strings.TrimSuffix(location, "/")), nil
}

// failed adds the operation, the store and what to do to an error.
func (s *Store) failed(operation string, err error) error {
	return fmt.Errorf("backup: %s in %s: %w%s", operation, s.location, err, advice(err))
}
