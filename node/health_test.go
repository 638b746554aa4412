package node

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"cqld/node/control"
)

// freeAddress returns a loopback address whose port is free.
func freeAddress(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return netip.MustParseAddrPort(l.Addr().String())
}

// probe returns the answer to a probe, or the error of the connection.
func probe(at netip.AddrPort, path string) string {
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + at.String() + path)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return resp.Status[:4] + strings.TrimSpace(string(b))
}

// TestProbesFollowTheNode probes a node while its CQL server stops and starts, while it is drained, and when it stops.
func TestProbesFollowTheNode(t *testing.T) {
	at := freeAddress(t)
	t.Cleanup(func() { // the node is closed
		if got := probe(at, "/livez"); !strings.Contains(got, "refused") {
			t.Errorf("closed: %q", got)
		}
	})
	r := openOperated(t, 79, 1)
	n := r.nodes[0]
	n.opts.Listen.HealthAddress = at
	if err := n.probes.open(n.opts.Listen.HealthAddress, n.servers.Ready, n.log); err != nil {
		t.Fatal(err)
	}
	expect := func(when, ready string) {
		t.Helper()
		if got := probe(at, "/readyz"); got != ready {
			t.Errorf("%s: /readyz is %q, want %q", when, got, ready)
		}
		if got := probe(at, "/livez"); got != "200 ok" {
			t.Errorf("%s: /livez is %q", when, got)
		}
		if got := operate(r, 0, control.ReadyOf, control.None{}); got.On != (ready == "200 ok") || !got.On &&
			!strings.HasSuffix(ready, got.Why) {
			t.Errorf("%s: the operation ready answers %+v", when, got)
		}
	}
	expect("open", "200 ok")
	operate(r, 0, control.SetBinary, control.Switch{})
	expect("disabled", "503 CQL clients are not served")
	operate(r, 0, control.SetBinary, control.Switch{On: true})
	expect("enabled", "200 ok")
	operate(r, 0, control.Drain, control.None{})
	expect("drained", "503 drained")
	n.servers.Stopping()
	if got := probe(at, "/readyz"); got != "503 stopping" {
		t.Errorf("closing: %q", got)
	}
}

// TestProbesBeforeTheStart probes a node that has not opened its parts yet.
func TestProbesBeforeTheStart(t *testing.T) {
	n := &Node{}
	if err := n.probes.live(); err != nil {
		t.Error("live:", err)
	}
}
