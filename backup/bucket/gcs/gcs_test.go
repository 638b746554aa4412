package gcs

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cqld/backup/bucket"
	"cqld/backup/bucket/buckettest"
)

// answered opens a bucket whose service answers all requests with a function, without credentials.
func answered(t *testing.T, answer http.HandlerFunc) bucket.Bucket {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	// A server is named with its port only, or as a URL.
	t.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(server.URL, "http://"))
	b, err := Open("backups")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// refused returns the status of a refusal, or 0.
func refused(err error) int {
	var r *bucket.Refusal
	if !errors.As(err, &r) {
		return 0
	}
	return r.Status
}

// TestAnswersAreTranslated answers requests with the errors of the service. Each request is sent once.
func TestAnswersAreTranslated(t *testing.T) {
	// A refusal with this status, whose text has this part.
	says := func(status int, part string) func(error) bool {
		return func(err error) bool { return refused(err) == status && strings.Contains(err.Error(), part) }
	}
	for what, c := range map[string]struct {
		status  int
		message string
		is      func(error) bool
	}{
		"missing": {404, "No such object: backups/p/x",
			func(err error) bool { return errors.Is(err, fs.ErrNotExist) }},
		"missing bucket": {404, "The specified bucket does not exist.", says(404, "bucket does not exist")},
		"credentials":    {401, "Invalid Credentials", says(401, "GOOGLE_APPLICATION_CREDENTIALS")},
		"permission":     {403, "a@b does not have storage.objects.get", says(403, "Storage Object User")},
		"account":        {403, "a@b does not have storage.objects.get", says(403, "a@b does not have")},
		"internal":       {500, "Backend Error", says(500, "Backend Error")},
		"unavailable":    {503, "Slow down", says(503, "Slow down")},
		"too many":       {429, "rateLimitExceeded", says(429, "rateLimitExceeded")},
		"moved":          {302, "elsewhere", says(302, "elsewhere")},
		"too short":      {416, "Range", func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
	} {
		sent := 0
		b := answered(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			sent++
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.status)
			// Answers to requests for contents are plain text.
			if r.URL.Query().Get("alt") == "media" {
				fmt.Fprint(w, c.message)
				return
			}
			fmt.Fprintf(w, `{"error":{"code":%d,"message":%q,"errors":[{"reason":"why"}]}}`, c.status, c.message)
		})
		_, stated := b.Stat(t.Context(), "p/x")
		_, _, read := b.Read(t.Context(), "p/x", 0, 0)
		errs := map[string]error{"stat": stated, "read": read, "remove": b.Remove(t.Context(), "p/x")}
		_, listed := b.List(t.Context(), "p/", 0)
		written := b.Write(t.Context(), "p/x", bucket.Bytes([]byte("content")))
		// These requests have no object that can be missing.
		if what != "missing" {
			errs["list"], errs["write"] = listed, written
		} else if refused(listed) != 404 || refused(written) != 404 {
			t.Errorf("%v, %v", listed, written)
		}
		for operation, err := range errs {
			if !c.is(err) {
				t.Errorf("%s: %s: %v", operation, what, err)
			}
		}
		if sent != 5 {
			t.Errorf("%s: 5 requests were sent %d times", what, sent)
		}
	}
}

// TestObjectsAreWrittenByOneRequest decodes the request that writes an object: the service receives its checksum first.
func TestObjectsAreWrittenByOneRequest(t *testing.T) {
	var sent []string
	b := answered(t, func(w http.ResponseWriter, r *http.Request) {
		_, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil {
			t.Error(err)
		}
		whole, err := io.ReadAll(r.Body)
		if err != nil || int64(len(whole)) != r.ContentLength {
			t.Errorf("%d bytes of %d, %v", len(whole), r.ContentLength, err)
		}
		sent = append(sent, r.URL.Path+" "+r.URL.Query().Get("uploadType"))
		for parts := multipart.NewReader(bytes.NewReader(whole), parameters["boundary"]); ; {
			part, err := parts.NextPart()
			if err != nil {
				break
			}
			text, err := io.ReadAll(part)
			if err != nil {
				t.Error(err)
			}
			sent = append(sent, string(text))
		}
		fmt.Fprint(w, "{}")
	})
	if err := b.Write(t.Context(), `a/"x`, bucket.Bytes([]byte("123456789"))); err != nil {
		t.Fatal(err)
	}
	// The check value of CRC32C, of the digits from 1 to 9, is e3069283.
	want := []string{"/upload/storage/v1/b/backups/o multipart", `{"crc32c":"4waSgw==","name":"a/\"x"}`, "123456789"}
	if !slices.Equal(sent, want) {
		t.Errorf("%q", sent)
	}
	// A content that cannot be read, or has changed, is not sent again.
	sent = nil
	c := bucket.Bytes([]byte("content"))
	c.SHA256 = strings.Repeat("0", 64)
	if err := bucket.Repeat(b).Write(t.Context(), "x", c); err == nil || len(sent) > 0 {
		t.Errorf("%q, %v", sent, err)
	}
}

// TestCutAnswersAreContinued reads an object whose content is cut twice.
func TestCutAnswersAreContinued(t *testing.T) {
	buckettest.ContinueCut(t, "Range", func(h http.HandlerFunc) bucket.Bucket { return answered(t, h) })
}

// TestCutListsAreErrors cuts a list, whose pages must not be taken for complete.
func TestCutListsAreErrors(t *testing.T) {
	b := answered(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, `{"items":[{"name":"x"}]`)
	})
	if names, err := b.List(t.Context(), "", 0); err == nil || refused(err) != 0 || len(names) > 0 {
		t.Errorf("a list that was cut: %q, %v", names, err)
	}
}

// TestEarlyAnswersEndTheRequest refuses a large object before its content was received.
func TestEarlyAnswersEndTheRequest(t *testing.T) {
	refuse := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }
	buckettest.RefuseEarly(t, answered(t, refuse))
}

// writeAccount writes the file of a service account whose tokens a server issues. The key is made for the test.
func writeAccount(t *testing.T, server string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(map[string]string{"type": "service_account", "client_email": "cqld@project.example",
		"private_key_id": "1", "token_uri": server, "private_key": string(pem.EncodeToMemory(&pem.Block{
			Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "account.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestTokensAreSent has a service account, whose token is asked for once and sent with each request.
func TestTokensAreSent(t *testing.T) {
	asked, sent := 0, 0
	status, text := 200, `{"access_token":"t0ken","token_type":"Bearer","expires_in":3600}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			asked++
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprint(w, text)
			return
		}
		sent++
		if got := r.Header.Get("Authorization"); got != "Bearer t0ken" {
			t.Errorf("the credentials are %q", got)
		}
		fmt.Fprint(w, `{}`)
	}))
	defer server.Close()
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", writeAccount(t, server.URL+"/token"))
	open := func() bucket.Bucket {
		b, err := Open("backups")
		if err != nil {
			t.Fatal(err)
		}
		// The account has tokens for Google's service, which this server replaces.
		b.(*objects).endpoint = server.URL
		return b
	}
	b := open()
	for range 3 {
		if _, err := b.List(t.Context(), "", 0); err != nil {
			t.Error(err)
		}
	}
	if asked != 1 || sent != 3 {
		t.Errorf("%d tokens for %d requests", asked, sent)
	}
	// The account was removed. Nothing is repeated, and no request is sent to the object store.
	status, text = 400, `{"error":"invalid_grant","error_description":"s3cret"}`
	err := bucket.Repeat(open()).Write(t.Context(), "x", bucket.Bytes([]byte("content")))
	if !errors.As(err, new(*bucket.CredentialsError)) || !strings.Contains(err.Error(), "invalid_grant") ||
		strings.Contains(err.Error(), "s3cret") || asked != 2 || sent != 3 {
		t.Errorf("%d tokens for %d requests: %v", asked, sent, err)
	}
	// A service of tokens that fails.
	status, text = 503, "s3cret"
	_, err = open().List(t.Context(), "", 0)
	if err == nil || errors.As(err, new(*bucket.CredentialsError)) || refused(err) != 0 {
		t.Errorf("a service of tokens that fails: %v", err)
	}
}

// TestCredentialsThatAreNone names files that are missing or contain no account. The errors say what to do, and do not
// repeat the file.
func TestCredentialsThatAreNone(t *testing.T) {
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	file := filepath.Join(t.TempDir(), "account.json")
	for _, text := range []string{"", "s3cret",
		`{"type":"service_account","private_key":"s3cret","client_email":"x"}`} {
		t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
		if text != "" {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		b, err := Open("backups")
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.List(t.Context(), "", 0)
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", text, err)
		}
		if text == "" && !strings.Contains(err.Error(), "GOOGLE_APPLICATION_CREDENTIALS") {
			t.Errorf("a missing file: %v", err)
		}
	}
	t.Setenv("STORAGE_EMULATOR_HOST", "http://")
	if _, err := Open("backups"); err == nil {
		t.Error("a server without a host was accepted")
	}
}
