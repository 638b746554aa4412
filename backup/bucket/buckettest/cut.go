package buckettest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cqld/backup/bucket"
)

// ContinueCut tests that the content of an object is read on from where an answer was cut. The server cuts the first
// two answers after half of what was asked for. answered returns a bucket whose requests the handler answers, and
// header is the name of the header with the range of a request.
func ContinueCut(t *testing.T, header string, answered func(http.HandlerFunc) bucket.Bucket) {
	t.Helper()
	content := strings.Repeat("0123456789", 500)
	var ranges []string
	b := answered(func(w http.ResponseWriter, r *http.Request) {
		asked := r.Header.Get(header)
		ranges = append(ranges, asked)
		at := 0
		if asked != "" {
			if _, err := fmt.Sscanf(asked, "bytes=%d-", &at); err != nil {
				t.Error(err)
			}
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", at, len(content)-1, len(content)))
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)-at))
		if at > 0 {
			w.WriteHeader(http.StatusPartialContent)
		}
		// The server closes the connection when fewer bytes than announced were written.
		part := content[at:]
		if len(ranges) < 3 {
			part = part[:len(part)/2]
		}
		_, _ = io.WriteString(w, part)
	})
	r, size, err := bucket.Repeat(b).Open(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil || string(got) != content || size != int64(len(content)) {
		t.Errorf("%d bytes of %d, %v", len(got), size, err)
	}
	if want := []string{"", "bytes=2500-", "bytes=3750-"}; !slices.Equal(ranges, want) {
		t.Errorf("%q", ranges)
	}
}
