package messaging

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cqld/internal/wire"
)

var recordRelease = flag.String("record-release", "",
	"write frames.txt in testdata/releases/VERSION: only in the commit of a release (CONTRIBUTING.md)")

const (
	releasesDir = "../testdata/releases"
	framesFile  = "frames.txt"
)

// TestFramesOfReleases decodes what each release sends at the beginning of a connection, and envelopes of all kinds.
func TestFramesOfReleases(t *testing.T) {
	if *recordRelease != "" {
		recordFrames(t, filepath.Join(releasesDir, *recordRelease))
	}
	entries, err := os.ReadDir(releasesDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Run(e.Name(), func(t *testing.T) { readFrames(t, filepath.Join(releasesDir, e.Name())) })
	}
	t.Run("this build", func(t *testing.T) {
		dir := t.TempDir()
		recordFrames(t, dir)
		readFrames(t, dir)
	})
}

// sampleEnvelopes are envelopes of all kinds.
func sampleEnvelopes() (out []envelope) {
	for k := oneWay; k <= pong; k++ {
		out = append(out, envelope{kind: k, verb: VerbMutation, id: 7, timeout: 900, traced: k == request,
			payload: []byte("payload")})
	}
	return out
}

// recordFrames writes the frames of this build, one a line: kind, and hexadecimal bytes.
func recordFrames(t *testing.T, dir string) {
	t.Helper()
	var b bytes.Buffer
	line := func(kind string, frame []byte) { fmt.Fprintf(&b, "%s %x\n", kind, frame) }
	cluster := clusterID{1, 2, 3}
	line("hello", appendHandshake(nil, ProtocolVersion, appendHello(nil, cluster, 5, OldestProtocol)))
	line("accept", appendHandshake(nil, ProtocolVersion, appendIdentity([]byte{handshakeAccepted}, cluster, 6)))
	line("refuse", appendHandshake(nil, ProtocolVersion, append([]byte{handshakeRefused}, "reason"...)))
	for _, e := range sampleEnvelopes() {
		line("envelope", appendEnvelope(nil, &e))
	}
	if err := errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, framesFile), b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// readFrames decodes the frames of a release.
func readFrames(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, framesFile))
	if err != nil {
		t.Fatal(err)
	}
	envelopes := sampleEnvelopes()
	for line := range strings.Lines(string(text)) {
		kind, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		b, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		if kind != "envelope" {
			readRecordedHandshake(t, kind, b)
			continue
		}
		c := wire.NewCursor(b)
		got, want := consumeEnvelope(&c), envelopes[0]
		if envelopes = envelopes[1:]; c.Finish() != nil || got.kind != want.kind || got.verb != want.verb ||
			got.id != want.id || got.timeout != want.timeout || got.traced != want.traced ||
			!bytes.Equal(got.payload, want.payload) {
			t.Errorf("%x is %+v, want %+v", b, got, want)
		}
	}
	if len(envelopes) > 0 {
		t.Errorf("%d kinds of envelopes are missing", len(envelopes))
	}
}

// readRecordedHandshake decodes a hello or an answer.
func readRecordedHandshake(t *testing.T, kind string, b []byte) {
	t.Helper()
	version, body, err := readHandshake(bytes.NewReader(b))
	if err != nil || version < OldestProtocol {
		t.Errorf("%s: version %d, %v", kind, version, err)
		return
	}
	if kind == "refuse" {
		if string(body[1:]) != "reason" || body[0] != handshakeRefused {
			t.Errorf("refused with %q", body)
		}
		return
	}
	c := wire.NewCursor(body)
	if kind == "accept" && c.Uint8() != handshakeAccepted {
		t.Errorf("accepted with %q", body)
	}
	cluster, node, err := consumeIdentity(&c)
	if err != nil || cluster != (clusterID{1, 2, 3}) || node != 5 && node != 6 {
		t.Errorf("%s: cluster %x, node %d, %v", kind, cluster, node, err)
	}
	if kind == "hello" && (c.Uint16() < OldestProtocol || c.Err() != nil) {
		t.Errorf("a hello without its oldest version: %x", body)
	}
}
