// Command stores serves buckets of S3 in memory, for tests of backups. It and command gcs are a module of their own, so
// that the module of cqld does not require their servers.
//
// It takes the names of buckets as arguments, listens on a free port of 127.0.0.1 and prints its URL. It exits when its
// standard input ends.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "stores:", err)
		os.Exit(1)
	}
}

// serve serves buckets until standard input ends.
func serve(buckets []string) error {
	backend := s3mem.New()
	for _, name := range buckets {
		if err := backend.CreateBucket(name); err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", listener.Addr())
	// The end of the test closes standard input, also if the test was killed.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	server := &http.Server{Handler: gofakes3.New(backend).Server(), ReadHeaderTimeout: time.Minute}
	return server.Serve(listener)
}
