package metadata

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"cqld/clusterversion"
	"cqld/ring"
)

// versionsWalk applies commands to the metadata of a ring whose nodes support several cluster versions.
type versionsWalk struct {
	t     *testing.T
	m     *Metadata
	index uint64
}

func (w *versionsWalk) do(c *Command) error {
	w.t.Helper()
	w.index++
	c.ID = CommandID{1: byte(w.index >> 8), 0: byte(w.index)}
	next, err := Apply(w.m, c, w.index)
	w.m = recode(w.t, next)
	return err
}

// spec returns node n with the versions from low to high.
func (w *versionsWalk) spec(n byte, low, high clusterversion.Version) NodeSpec {
	return NodeSpec{Host: ring.HostID{n}, Disk: [16]byte{n}, Datacenter: "dc1", Rack: "r1", NumTokens: 1,
		Internode: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, n}), 7000),
		Native:    netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, n}), 9042),
		Versions:  clusterversion.Range{Min: low, Max: high}}
}

func (w *versionsWalk) join(n byte, low, high clusterversion.Version) error {
	return w.do(&Command{Admit: &Admit{Epoch: w.m.Topology.Epoch(), Tokens: []ring.Token{ring.Token(n)},
		Node: w.spec(n, low, high)}})
}

func (w *versionsWalk) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// refused requires a refusal whose message contains text.
func (w *versionsWalk) refused(err error, text string) {
	w.t.Helper()
	var refused *Refused
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, text) {
		w.t.Fatalf("got %v, want a refusal with %q", err, text)
	}
}

// TestUpgradeOfMetadata upgrades a ring of three from builds that support version 1 to builds that support 1 and 2.
func TestUpgradeOfMetadata(t *testing.T) {
	w := &versionsWalk{t: t, m: Empty()}
	w.must(w.do(&Command{Found: &Found{Secret: []byte{1}, Version: 1}}))
	for n := range byte(3) {
		w.must(w.join(n+1, 1, 1))
	}
	finalize := func(v clusterversion.Version) error { return w.do(&Command{Finalize: &Finalize{Version: v}}) }
	w.refused(finalize(2), "127.0.0.3:7000 (version 1)")
	// Two of three, and one of them goes back.
	w.must(w.do(&Command{Update: &Update{Node: w.spec(1, 1, 2)}}))
	w.must(w.do(&Command{Update: &Update{Node: w.spec(2, 1, 2)}}))
	w.must(w.do(&Command{Update: &Update{Node: w.spec(2, 1, 1)}}))
	w.must(w.do(&Command{Update: &Update{Node: w.spec(3, 1, 2)}}))
	w.refused(finalize(2), "127.0.0.2:7000 (version 1)")
	if w.m.NextVersion() != 1 || len(w.m.Lacking(2)) != 1 {
		t.Fatalf("version %d follows", w.m.NextVersion())
	}
	w.refused(w.join(4, 2, 3), "finalize that upgrade first")
	w.refused(w.do(&Command{Version: 2, Finalize: &Finalize{Version: 1}}), "needs cluster version 2")
	w.must(w.do(&Command{Update: &Update{Node: w.spec(2, 1, 2)}}))
	w.refused(finalize(3), "not all nodes support cluster version 3")
	if w.m.NextVersion() != 2 {
		t.Fatalf("version %d follows", w.m.NextVersion())
	}
	w.must(finalize(2))
	w.must(finalize(2)) // a second operator
	w.refused(finalize(1), "cannot go back")
	w.refused(w.join(5, 1, 1), "start a newer build")
	w.refused(w.do(&Command{Update: &Update{Node: w.spec(1, 1, 1)}}), "start a newer build")
	w.must(w.join(6, 2, 3))
	if w.m.ClusterVersion != 2 || w.m.NextVersion() != 2 || !w.m.ClusterVersion.Enables(2) {
		t.Fatalf("the cluster has version %d", w.m.ClusterVersion)
	}
}

// TestNewerEncodingsAreRefused decodes a command and a snapshot with fields that a newer build added: ignoring them
// would make the metadata of this node differ from the metadata of the others.
func TestNewerEncodingsAreRefused(t *testing.T) {
	b, err := Empty().Encode()
	if err != nil {
		t.Fatal(err)
	}
	newer := strings.Replace(string(b), "{", `{"Quotas":{"a":1},`, 1)
	newer = strings.Replace(newer, `"ClusterVersion":1`, `"ClusterVersion":2`, 1)
	for text, want := range map[string]string{
		newer: "written at cluster version 2", strings.Replace(string(b), `"Format":1`, `"Format":2`, 1): "format 2",
	} {
		if _, err := Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{`{"Version":2,"Quota":{}}`, `{"Finalize":{"Version":1,"Again":true}}`, `{} {}`} {
		if c, err := DecodeCommand([]byte(text)); err == nil {
			t.Errorf("%s: decoded as %+v", text, c)
		}
	}
}
