//go:build integration

package integration

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"cqld/backup/bucket"
	"cqld/backup/bucket/azure"
	"cqld/backup/bucket/buckettest"
	"cqld/backup/bucket/gcs"
	"cqld/backup/bucket/s3"
	"cqld/integration/process"
)

// serveStores starts a server of S3 with the empty bucket backups, and sets credentials for it. It returns its URL.
func serveStores(t *testing.T) string {
	t.Helper()
	address := serveModule(t, ".")
	// Nodes that the test starts inherit the environment. The server accepts any key.
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
	return address
}

// serveGoogle starts a server of Google Cloud Storage with the empty bucket backups, and names it in the environment.
// It needs no credentials. It returns its URL.
func serveGoogle(t *testing.T) string {
	t.Helper()
	address := serveModule(t, "./gcs")
	t.Setenv("STORAGE_EMULATOR_HOST", address)
	return address
}

// serveModule builds and starts a command of the module integration/stores with the bucket backups. It returns the URL
// that the command prints.
func serveModule(t *testing.T, command string) string {
	t.Helper()
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "stores")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, command)
	build.Dir = filepath.Join(root, "integration", "stores")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the object store: %v\n%s", err, out)
	}
	server := exec.Command(program, "backups")
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	// The server exits when its standard input ends.
	t.Cleanup(func() { _ = in.Close(); _ = server.Wait() })
	// The first line is written when the server listens.
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(url)
}

// azuriteAccount is the account of the server of Azure Blob Storage.
const azuriteAccount = "backups1"

// serveAzure starts Azurite, a server of Azure Blob Storage, with the empty container backups, and sets credentials for
// it. It returns its URL.
func serveAzure(t *testing.T) string {
	t.Helper()
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(root, ".tools/azurite/node_modules/azurite/dist/src/blob/main.js")
	if !exists(program) {
		missing(t, "Azurite", "run tools/install.sh azurite")
	}
	key := base64.StdEncoding.EncodeToString([]byte("the s3cret of the account"))
	// It does not know the newest versions of the interface, whose requests it understands.
	server := exec.Command("node", program, "--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence",
		"--disableTelemetry", "--skipApiVersionCheck")
	server.Dir = t.TempDir()
	server.Env = append(os.Environ(), "AZURITE_ACCOUNTS="+azuriteAccount+":"+key)
	out, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	lines := bufio.NewReader(out)
	var address string
	for address == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		_, address, _ = strings.Cut(strings.TrimSpace(line), "listens on ")
	}
	// It writes a line for each request.
	drained := make(chan struct{})
	go func() { defer close(drained); _, _ = io.Copy(io.Discard, lines) }()
	t.Cleanup(func() { _ = server.Process.Kill(); <-drained })
	credential, err := container.NewSharedKeyCredential(azuriteAccount, key)
	if err != nil {
		t.Fatal(err)
	}
	client, err := container.NewClientWithSharedKeyCredential(address+"/"+azuriteAccount+"/backups", credential, nil)
	if err == nil {
		_, err = client.Create(t.Context(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("AZURE_STORAGE_KEY", key)
	return address
}

// damaged starts a proxy of a server. It changes a byte of each request with the word fragile. Package bucket compares
// contents before they are sent, so only something between the node and the service can damage them.
func damaged(t *testing.T, server string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(u)
		r.Out.Host = r.In.Host
		if r.In.Body == nil {
			return
		}
		// An error shortens the request, which the server refuses.
		b, _ := io.ReadAll(r.In.Body)
		r.Out.Body = io.NopCloser(bytes.NewReader(bytes.Replace(b, []byte("fragile"), []byte("Fragile"), 1)))
	}}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	return front.URL
}

// conform tests a bucket with a server: what package buckettest requires, and that the server refuses an object whose
// content has changed on its way.
func conform(t *testing.T, server string, open func(endpoint string) (bucket.Bucket, error)) {
	t.Helper()
	b, err := open(server)
	if err != nil {
		t.Fatal(err)
	}
	buckettest.Conform(t, b, "conform/", 1100)
	if b, err = open(damaged(t, server)); err != nil {
		t.Fatal(err)
	}
	// The proxy itself changes nothing.
	if err := b.Write(t.Context(), "whole", bucket.Bytes([]byte("whole"))); err != nil {
		t.Error(err)
	}
	var refusal *bucket.Refusal
	err = b.Write(t.Context(), "changed", bucket.Bytes([]byte("fragile")))
	if !errors.As(err, &refusal) || refusal.Status != http.StatusBadRequest {
		t.Errorf("a content that has changed on its way: %v", err)
	}
	if _, err := b.Stat(t.Context(), "changed"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was written: %v", err)
	}
}

// TestS3Conforms tests the bucket of S3 with a server, which does not compare the hashes of contents.
func TestS3Conforms(t *testing.T) {
	b, err := s3.Open(s3.Options{Bucket: "backups", Endpoint: serveStores(t)})
	if err != nil {
		t.Fatal(err)
	}
	buckettest.Conform(t, b, "conform/", 1100)
}

// TestAzureConforms tests the container of Azure Blob Storage with a server, and credentials that it rejects.
func TestAzureConforms(t *testing.T) {
	server := serveAzure(t)
	open := func(endpoint string) (bucket.Bucket, error) {
		return azure.Open(azure.Options{Container: "backups", Account: azuriteAccount, Endpoint: endpoint})
	}
	conform(t, server, open)
	wrong := base64.StdEncoding.EncodeToString([]byte("another s3cret"))
	t.Setenv("AZURE_STORAGE_KEY", wrong)
	b, err := open(server)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.List(t.Context(), "", 0)
	var refusal *bucket.Refusal
	if !errors.As(err, &refusal) || refusal.Status != http.StatusForbidden ||
		!strings.Contains(err.Error(), "check AZURE_STORAGE_KEY") || strings.Contains(err.Error(), wrong) {
		t.Errorf("another key: %v", err)
	}
}

// TestGoogleConforms tests the bucket of Google Cloud Storage with a server.
func TestGoogleConforms(t *testing.T) {
	conform(t, serveGoogle(t), func(endpoint string) (bucket.Bucket, error) {
		t.Setenv("STORAGE_EMULATOR_HOST", endpoint)
		return gcs.Open("backups")
	})
}
