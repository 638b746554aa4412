package s3

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cqld/backup/bucket"
)

// answered opens a bucket whose service answers all requests with a function. The node has the credentials key and
// s3cret.
func answered(t *testing.T, answer http.HandlerFunc) bucket.Bucket {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
	b, err := Open(Options{Bucket: "backups", Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAnswersAreTranslated answers requests with the errors of services. Each request is sent once, and no error
// contains the secret.
func TestAnswersAreTranslated(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		is     func(error) bool
	}{
		{404, "NoSuchKey", func(err error) bool { return errors.Is(err, fs.ErrNotExist) }},
		{404, "NoSuchBucket", func(err error) bool { return refused(err) == 404 }},
		{403, "AccessDenied", func(err error) bool { return refused(err) == 403 }},
		{403, "SignatureDoesNotMatch", func(err error) bool { return refused(err) == 403 }},
		{500, "InternalError", func(err error) bool { return refused(err) == 500 }},
		{503, "SlowDown", func(err error) bool { return refused(err) == 503 }},
		{416, "InvalidRange", func(err error) bool { return refused(err) == 0 && !errors.Is(err, fs.ErrNotExist) }},
	} {
		sent := 0
		b := answered(t, func(w http.ResponseWriter, _ *http.Request) {
			sent++
			w.WriteHeader(c.status)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>Something failed.</Message></Error>", c.code)
		})
		// HEAD has no body, so its errors have no codes: Conform tests it.
		_, listed := b.List(t.Context(), "p/", 0)
		_, _, read := b.Read(t.Context(), "p/x", 0, 0)
		written := b.Write(t.Context(), "p/x", bucket.Bytes([]byte("content")))
		for operation, err := range map[string]error{"list": listed, "read": read, "write": written} {
			if !c.is(err) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: %s: %v", operation, c.code, err)
			}
		}
		if sent != 3 {
			t.Errorf("%s: 3 requests were sent %d times", c.code, sent)
		}
	}
}

// refused returns the status of a refusal, or 0.
func refused(err error) int {
	var r *bucket.Refusal
	if !errors.As(err, &r) {
		return 0
	}
	return r.Status
}

// TestRequestsAreSigned compares who has signed: the environment, or the profile of the URL, which takes
// precedence. The secret is not sent.
func TestRequestsAreSigned(t *testing.T) {
	var got http.Header
	answer := func(w http.ResponseWriter, r *http.Request) { got = r.Header.Clone() }
	b := answered(t, answer)
	c := bucket.Bytes([]byte("content"))
	if err := b.Write(t.Context(), "x", c); err != nil {
		t.Fatal(err)
	}
	// The service compares the content with the hash.
	if !strings.Contains(got.Get("Authorization"), "Credential=key/") || got.Get("X-Amz-Content-Sha256") != c.SHA256 ||
		strings.Contains(fmt.Sprint(got), "s3cret") {
		t.Errorf("%v", got)
	}
	// The environment still has the other key.
	file := filepath.Join(t.TempDir(), "credentials")
	text := "[other]\naws_access_key_id = second\naws_secret_access_key = s3cret\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(answer))
	defer server.Close()
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	b, err := Open(Options{Bucket: "backups", Endpoint: server.URL, Profile: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Write(t.Context(), "x", c); err != nil || !strings.Contains(got.Get("Authorization"),
		"Credential=second/") {
		t.Errorf("%v, %v", got, err)
	}
}
