// Command gcs serves a bucket of Google Cloud Storage in memory, for tests of backups.
//
// It takes the name of the bucket as its argument, listens on a free port of 127.0.0.1 and prints its URL. It exits
// when its standard input ends.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

func main() {
	if err := serve(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gcs:", err)
		os.Exit(1)
	}
}

// serve serves a bucket until standard input ends.
func serve(bucket string) error {
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{Scheme: "http", Host: "127.0.0.1"})
	if err != nil {
		return err
	}
	defer server.Stop()
	server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: bucket})
	fmt.Println(server.URL())
	// The end of the test closes standard input, also if the test was killed.
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
