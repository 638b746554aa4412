//go:build integration

package integration

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cqld/backup/bucket/buckettest"
	"cqld/backup/bucket/s3"
)

// serveStores starts a server of S3 with the empty bucket backups, and sets credentials for it. It returns its URL.
func serveStores(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "stores")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
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
	// Nodes that the test starts inherit the environment. The server accepts any key.
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
	return strings.TrimSpace(url)
}

// TestS3Conforms tests the bucket of S3 with a server.
func TestS3Conforms(t *testing.T) {
	b, err := s3.Open(s3.Options{Bucket: "backups", Endpoint: serveStores(t)})
	if err != nil {
		t.Fatal(err)
	}
	buckettest.Conform(t, b, "conform/", 1100)
}
