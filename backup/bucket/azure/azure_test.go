package azure

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"cqld/backup/bucket"
	"cqld/backup/bucket/buckettest"
)

// setenv sets the variables of the credentials, and clears the others.
func setenv(t *testing.T, values map[string]string) {
	t.Helper()
	for _, name := range []string{"AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN",
		"AZURE_STORAGE_CONNECTION_STRING", "AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET",
		"AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST", "IDENTITY_ENDPOINT", "IDENTITY_HEADER"} {
		t.Setenv(name, values[name])
	}
}

// key returns the secret s3cret as the key of an account.
func key() string { return base64.StdEncoding.EncodeToString([]byte("s3cret")) }

// answered opens a container whose service answers all requests with a function.
func answered(t *testing.T, answer http.HandlerFunc) bucket.Bucket {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	setenv(t, map[string]string{"AZURE_STORAGE_ACCOUNT": "ours", "AZURE_STORAGE_KEY": key()})
	b, err := Open(Options{Container: "backups", Endpoint: server.URL})
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

// TestAnswersAreTranslated answers requests with the errors of the service. Each request is sent once, and no error
// contains the key.
func TestAnswersAreTranslated(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		is     func(error) bool
	}{
		{404, "BlobNotFound", func(err error) bool { return errors.Is(err, fs.ErrNotExist) }},
		{404, "ContainerNotFound", func(err error) bool { return refused(err) == 404 }},
		{403, "AuthenticationFailed", func(err error) bool {
			return refused(err) == 403 && strings.Contains(err.Error(), "AZURE_STORAGE_KEY")
		}},
		{403, "AuthorizationPermissionMismatch", func(err error) bool {
			return refused(err) == 403 && strings.Contains(err.Error(), "Storage Blob Data Contributor")
		}},
		{409, "BlobArchived", func(err error) bool {
			return refused(err) == 409 && strings.Contains(err.Error(), "Something failed.")
		}},
		{500, "InternalError", func(err error) bool { return refused(err) == 500 }},
		{503, "ServerBusy", func(err error) bool { return refused(err) == 503 }},
		{416, "InvalidRange", func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
	} {
		sent := 0
		b := answered(t, func(w http.ResponseWriter, _ *http.Request) {
			sent++
			w.Header().Set("x-ms-error-code", c.code)
			w.WriteHeader(c.status)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>Something failed.\nRequestId:7</Message></Error>", c.code)
		})
		_, stated := b.Stat(t.Context(), "p/x")
		_, listed := b.List(t.Context(), "p/", 0)
		_, _, read := b.Read(t.Context(), "p/x", 0, 0)
		errs := map[string]error{"list": listed, "read": read, "remove": b.Remove(t.Context(), "p/x"),
			"write": b.Write(t.Context(), "p/x", bucket.Bytes([]byte("content")))}
		// Answers to HEAD have no body, and so no message.
		if c.status != 409 {
			errs["stat"] = stated
		}
		for operation, err := range errs {
			if !c.is(err) || strings.Contains(err.Error(), key()) {
				t.Errorf("%s: %s: %v", operation, c.code, err)
			}
		}
		if sent != 5 {
			t.Errorf("%s: 5 requests were sent %d times", c.code, sent)
		}
	}
}

// TestCutAnswersAreContinued reads an object whose content is cut twice.
func TestCutAnswersAreContinued(t *testing.T) {
	buckettest.ContinueCut(t, "x-ms-range", func(h http.HandlerFunc) bucket.Bucket { return answered(t, h) })
}

// TestEarlyAnswersEndTheRequest refuses a large object before its content was received.
func TestEarlyAnswersEndTheRequest(t *testing.T) {
	refuse := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }
	buckettest.RefuseEarly(t, answered(t, refuse))
}

// TestRequestsAreSigned writes an object: the service receives a signature and the hash of the content, not the key.
func TestRequestsAreSigned(t *testing.T) {
	var got http.Header
	var path string
	b := answered(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got, path = r.Header.Clone(), r.URL.Path
		w.WriteHeader(http.StatusCreated)
	})
	if err := b.Write(t.Context(), "a/x", bucket.Bytes([]byte("content"))); err != nil {
		t.Fatal(err)
	}
	// The MD5 hash of the word content.
	if !strings.HasPrefix(got.Get("Authorization"), "SharedKey ours:") || path != "/ours/backups/a/x" ||
		got.Get("Content-MD5") != "mgNkuembtIDdJeHwKEyFVQ==" || got.Get("Content-Length") != "7" ||
		strings.Contains(fmt.Sprint(got), key()) {
		t.Errorf("%s: %v", path, got)
	}
}

// TestSignaturesAreNotInErrors has a shared access signature, which is in the URL of each request, and a service that
// does not answer.
func TestSignaturesAreNotInErrors(t *testing.T) {
	status := http.StatusForbidden
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("sig") != "s3cret" {
			t.Errorf("the request is not signed: %s", r.URL)
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, "<Error><Code>AuthenticationFailed</Code><AuthenticationErrorDetail>%s"+
			"</AuthenticationErrorDetail></Error>", r.URL.RawQuery)
	}))
	setenv(t, map[string]string{"AZURE_STORAGE_CONNECTION_STRING": "BlobEndpoint=" + server.URL +
		"/ours;SharedAccessSignature=?sv=2026&sig=s3cret"})
	b, err := Open(Options{Container: "backups"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, stated := b.Stat(t.Context(), "x")
		_, listed := b.List(t.Context(), "", 0)
		written := b.Write(t.Context(), "x", bucket.Bytes([]byte("content")))
		for _, err := range []error{stated, listed, written} {
			if err == nil || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%v", err)
			}
		}
		server.Close()
	}
}

// TestEndpointsAreChosen compares the container's URL for settings of the node and of the location. Settings that
// exclude each other, or would send a token elsewhere, are errors that name the setting and not its value.
func TestEndpointsAreChosen(t *testing.T) {
	// The environment has no account, unless a case sets it.
	withKey := map[string]string{"AZURE_STORAGE_KEY": key()}
	const connection = "AZURE_STORAGE_CONNECTION_STRING"
	for what, c := range map[string]struct {
		environment       map[string]string
		account, endpoint string
		want, fails       string
	}{
		"public cloud": {withKey, "ours", "", "https://ours.blob.core.windows.net/backups", ""},
		"another cloud": {withKey, "ours", "https://ours.blob.core.usgovcloudapi.net",
			"https://ours.blob.core.usgovcloudapi.net/backups", ""},
		"path": {withKey, "ours", "http://127.0.0.1:10000", "http://127.0.0.1:10000/ours/backups", ""},
		"account of a node": {map[string]string{"AZURE_STORAGE_ACCOUNT": "node", "AZURE_STORAGE_KEY": key()}, "", "",
			"https://node.blob.core.windows.net/backups", ""},
		"no account": {withKey, "", "", "", "account=ACCOUNT"},
		"connection string": {map[string]string{connection: "AccountName=node;AccountKey=" + key() +
			";EndpointSuffix=core.chinacloudapi.cn;"}, "", "", "https://node.blob.core.chinacloudapi.cn/backups", ""},
		"another account": {map[string]string{connection: "AccountName=node;AccountKey=" + key()},
			"ours", "", "", `"node"`},
		"string without a key": {map[string]string{connection: "AccountName=s3cret"}, "", "", "",
			"AccountKey"},
		"no string": {map[string]string{connection: "s3cret"}, "", "", "", "NAME=VALUE"},
		"no key":    {map[string]string{"AZURE_STORAGE_KEY": "s3cret!"}, "ours", "", "", "base64"},
		"signature for another service": {map[string]string{"AZURE_STORAGE_SAS_TOKEN": "sig=s3cret"}, "ours",
			"https://blob.core.windows.net.example.com", "", "would learn"},
		"signature in clear": {map[string]string{"AZURE_STORAGE_SAS_TOKEN": "sig=s3cret"}, "ours",
			"http://ours.blob.core.windows.net", "", "would learn"},
		"token for another service": {nil, "ours", "https://ours.example.com", "", "would learn"},
	} {
		setenv(t, c.environment)
		b, err := Open(Options{Container: "backups", Account: c.account, Endpoint: c.endpoint})
		if err != nil {
			if c.fails == "" || !strings.Contains(err.Error(), c.fails) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		if got := b.(*objects).container.URL(); got != c.want {
			t.Errorf("%s: %s", what, got)
		}
	}
}

// TestIdentitiesGetTokens asks a service of machine identities for a token, and one that refuses.
func TestIdentitiesGetTokens(t *testing.T) {
	answer := func(status int, text string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-IDENTITY-HEADER") != "s3cret" || !strings.Contains(r.URL.RawQuery, "storage.azure.com") {
				t.Errorf("the request for a token is %s %v", r.URL, r.Header)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprint(w, text)
		}))
		t.Cleanup(s.Close)
		return s
	}
	// The library asks for the audience of a scope.
	o := policy.TokenRequestOptions{Scopes: []string{"https://storage.azure.com/.default"}}
	good := answer(200, `{"access_token":"t0ken","expires_on":"4102444800","resource":"https://storage.azure.com",`+
		`"token_type":"Bearer"}`)
	setenv(t, map[string]string{"IDENTITY_ENDPOINT": good.URL, "IDENTITY_HEADER": "s3cret"})
	i, err := assigned()
	if err != nil {
		t.Fatal(err)
	}
	if token, err := i.GetToken(t.Context(), o); err != nil || token.Token != "t0ken" {
		t.Errorf("%q, %v", token.Token, err)
	}
	// AZURE_CLIENT_ID names an identity that the machine does not have. The answer repeats a secret.
	bad := answer(400, `{"error":"invalid_request","error_description":"Identity not found s3cret"}`)
	setenv(t, map[string]string{"IDENTITY_ENDPOINT": bad.URL, "IDENTITY_HEADER": "s3cret", "AZURE_CLIENT_ID": "other"})
	if i, err = assigned(); err != nil {
		t.Fatal(err)
	}
	_, err = i.GetToken(t.Context(), o)
	if err = translate(err); !errors.As(err, new(*bucket.CredentialsError)) ||
		!strings.Contains(err.Error(), "AZURE_STORAGE_KEY") ||
		strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%v", err)
	}
}

// TestIdentitiesAreChosen compares the kinds of identities for settings of the process.
func TestIdentitiesAreChosen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("t0ken"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, environment := range map[string]map[string]string{
		"*azidentity.ManagedIdentityCredential": {},
		"*azidentity.ClientSecretCredential": {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c",
			"AZURE_CLIENT_SECRET": "s3cret"},
		"*azidentity.WorkloadIdentityCredential": {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c",
			"AZURE_FEDERATED_TOKEN_FILE": file},
	} {
		setenv(t, environment)
		i, err := assigned()
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		if got := fmt.Sprintf("%T", i.(identity).next); got != want {
			t.Errorf("%s instead of %s", got, want)
		}
	}
}
