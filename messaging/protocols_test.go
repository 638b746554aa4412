package messaging

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"cqld/ring"
)

// TestNodesOfTwoReleasesAgree connects nodes that speak different ranges of protocol versions, in both directions, and
// sends a request: it succeeds if the ranges have a version in common.
func TestNodesOfTwoReleasesAgree(t *testing.T) {
	for _, x := range []struct {
		a, b Protocols
		ok   bool
	}{
		{Protocols{8, 8}, Protocols{8, 9}, true},
		{Protocols{8, 9}, Protocols{9, 10}, true},
		{Protocols{8, 8}, Protocols{9, 9}, false},
		{Protocols{8, 9}, Protocols{10, 11}, false},
	} {
		for _, pair := range [][2]Protocols{{x.a, x.b}, {x.b, x.a}} {
			t.Run(fmt.Sprint(pair[0], " and ", pair[1]), func(t *testing.T) {
				a, b := openSpeaking(t, 1, pair[0]), openSpeaking(t, 2, pair[1])
				know(b, a)
				know(a, b)
				if !x.ok {
					waitFor(t, func() bool { return b.Refused() > 0 && a.Refused() > 0 })
					return
				}
				waitFor(t, func() bool { return ask(a, VerbHeartbeat, "x") == nil && a.Refused()+b.Refused() == 0 })
			})
		}
	}
}

// openSpeaking opens a transport that speaks a range of versions.
func openSpeaking(t *testing.T, id ring.NodeID, p Protocols) *StreamTransport {
	t.Helper()
	n := NewStreamTransport(Options{Cluster: "c", Listen: netip.MustParseAddrPort("127.0.0.1:0"),
		Limits: DefaultLimits(), Protocols: p, Security: suiteSecurity(t)})
	return openAsNode(t, n, id)
}

// TestHelloOfNewerRelease sends a hello with fields that this build does not know: it is accepted at the version that
// both speak.
func TestHelloOfNewerRelease(t *testing.T) {
	b := openNode(t, 2, "c", nil)
	conn := suiteDial(t, b.Addr())
	defer conn.Close()
	body := append(appendHello(nil, b.identities.Load().present, 1, 8), "fields of version 9"...)
	if _, err := conn.Write(appendHandshake(nil, 9, body)); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience)) // a new connection takes deadlines
	version, answer, err := readHandshake(conn)
	if err != nil || version != 8 || !bytes.HasPrefix(answer, []byte{handshakeAccepted}) {
		t.Fatalf("version %d, answer %q, %v", version, answer, err)
	}
}
