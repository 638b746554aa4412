package metadata

import (
	"encoding/json"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"cqld/clusterversion"
	"cqld/ring"
)

// All fields that admissions and plans compare persist in a snapshot.
func TestMetadataSurvivesItsEncoding(t *testing.T) {
	m := Empty()
	m.Topology = ring.NewTopology(5, []*ring.Node{{ID: 1, Datacenter: "dc1", Rack: "r1", State: ring.Normal,
		Tokens:    []ring.Token{-3, 4},
		Internode: netip.MustParseAddrPort("127.0.0.1:7000"), Native: netip.MustParseAddrPort("127.0.0.1:9042"),
		DiskID: [16]byte{1}, Versions: clusterversion.Range{Min: 1, Max: 2}}})
	m.Epoch, m.nextNode, m.Secret, m.recent = 9, 2, []byte("s"), []CommandID{{1}, {2}}
	got := recode(t, m)
	if got.Epoch != 9 || got.Topology.Epoch() != 5 || got.nextNode != 2 || string(got.Secret) != "s" ||
		!slices.Equal(got.recent, m.recent) {
		t.Errorf("%+v became %+v", m, got)
	}
	if !reflect.DeepEqual(got.Topology.Nodes(), m.Topology.Nodes()) {
		t.Errorf("%+v became %+v", m.Topology.Nodes()[0], got.Topology.Nodes()[0])
	}
	if v := recode(t, got).Schema.Version(); v != got.Schema.Version() {
		t.Errorf("schema version %v became %v", got.Schema.Version(), v)
	}
}

// TestDecodeRefusesBrokenTopologies decodes metadata that a faulty or dishonest node may send: an error, not a broken
// invariant, which would stop the node.
func TestDecodeRefusesBrokenTopologies(t *testing.T) {
	node := func(id ring.NodeID, token int64) nodeJSON {
		return nodeJSON{ID: id, Datacenter: "dc1", Rack: "r1", State: ring.Normal,
			Tokens: []ring.Token{ring.Token(token)}}
	}
	for name, change := range map[string]func(*metadataJSON){
		"a node twice":            func(j *metadataJSON) { j.Nodes = []nodeJSON{node(1, 1), node(1, 2)} },
		"a node without an id":    func(j *metadataJSON) { j.Nodes[0].ID = 0 },
		"a token twice":           func(j *metadataJSON) { j.Nodes = []nodeJSON{node(1, 1), node(2, 1)} },
		"a later change":          func(j *metadataJSON) { j.Moved = j.Topology + 1 },
		"no operation":            func(j *metadataJSON) { j.Operations = []*ring.Operation{nil} },
		"a later operation":       func(j *metadataJSON) { j.Operations = []*ring.Operation{{ID: j.Topology + 1}} },
		"operations out of order": func(j *metadataJSON) { j.Operations = []*ring.Operation{{ID: 2}, {ID: 1}} },
		"an operation without id": func(j *metadataJSON) { j.Operations = []*ring.Operation{{}} },
		"a later switch":          func(j *metadataJSON) { j.Operations = []*ring.Operation{{ID: 1, Switched: 100}} },
	} {
		m := Empty()
		m.Topology = ring.NewTopology(5, nil)
		var j metadataJSON
		if err := json.Unmarshal(encoded(t, m), &j); err != nil {
			t.Fatal(err)
		}
		j.Nodes = []nodeJSON{node(1, 1), node(2, 2)}
		change(&j)
		b, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(b); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func recode(t *testing.T, m *Metadata) *Metadata {
	t.Helper()
	m, err := Decode(encoded(t, m))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func encoded(t *testing.T, m *Metadata) []byte {
	t.Helper()
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A duplicated command is applied once, and a refused command has no effect.
func TestDuplicateCommandIsAppliedOnce(t *testing.T) {
	m := Empty()
	found := &Command{ID: CommandID{1}, Found: &Found{Secret: []byte("a")}}
	m, err := apply(m, found, 3)
	if err != nil || m.Epoch != 3 {
		t.Fatal(err, m.Epoch)
	}
	if again, err := apply(m, found, 4); err != nil || again != m {
		t.Errorf("applied twice: %v", err)
	}
	other, err := apply(m, &Command{ID: CommandID{2}, Found: &Found{Secret: []byte("b")}}, 5)
	var refused *Refused
	if !errors.As(err, &refused) || string(other.Secret) != "a" || other.Epoch != 3 || !other.seen(CommandID{2}) {
		t.Errorf("%v: %+v", err, other)
	}
	for i := range recentMax + 10 {
		if m, err = apply(m, &Command{ID: CommandID{9, byte(i), byte(i >> 8)}}, uint64(10+i)); err == nil {
			t.Fatal("an empty command was applied")
		}
	}
	if len(m.recent) != recentMax {
		t.Errorf("%d commands are remembered", len(m.recent))
	}
}

// TestFoundOfEarlierVersion replays the Found of an earlier version, which contains no keyspaces.
func TestFoundOfEarlierVersion(t *testing.T) {
	m, err := apply(Empty(), &Command{Found: &Found{Cluster: "old", Secret: []byte("s")}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if m.Schema.Keyspace("system_auth") == nil {
		t.Errorf("it has only %v", m.Schema.KeyspaceNames())
	}
}
