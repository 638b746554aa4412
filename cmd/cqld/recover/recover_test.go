package recover

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/cockroachdb/datadriven"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"cqld/cluster/identity"
	"cqld/cluster/metadata"
	"cqld/cluster/raftlog"
	"cqld/node/datadir"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage/encryption"
)

// TestCommands runs the commands on data directories. In testdata, "node number=N last=L term=T" makes the directory
// nodeN of a member whose log ends at entry L and that has voted in term T; "encrypt number=N" encrypts its files with
// the key in the file store.key; "run" executes a command line, whose input is the word after "<"; "rm" removes a file;
// "clear" lists the files of a directory that are not encrypted.
func TestCommands(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		dir := t.TempDir()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "node":
				var number, last, term uint64
				d.ScanArgs(t, "number", &number)
				d.ScanArgs(t, "last", &last)
				d.ScanArgs(t, "term", &term)
				makeNode(t, filepath.Join(dir, fmt.Sprintf("node%d", number)), int(number), last, term)
				return ""
			case "encrypt":
				var number uint64
				d.ScanArgs(t, "number", &number)
				encryptNode(t, dir, filepath.Join(dir, fmt.Sprintf("node%d", number)))
				return ""
			case "clear":
				return filesInClear(t, filepath.Join(dir, strings.TrimSpace(d.Input)))
			case "rm":
				if err := vfs.Default.Remove(filepath.Join(dir, strings.TrimSpace(d.Input))); err != nil {
					return err.Error()
				}
				return ""
			case "run":
				return runIn(t, dir, d.Input)
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}

// encryptNode encrypts the files of a node in clear with a key that it writes to a file.
func encryptNode(t *testing.T, dir, node string) {
	t.Helper()
	const key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	if err := datadir.WriteDurable(filepath.Join(dir, "store.key"), []byte(key)); err != nil {
		t.Fatal(err)
	}
	keys, err := encryption.ParseKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	disk := encryption.New(vfs.Default, keys, rand.Reader)
	stale, err := disk.Stale(filepath.Join(node, datadir.Metadata))
	if err != nil || len(stale) == 0 {
		t.Fatal(stale, err)
	}
	for _, s := range stale {
		if _, err := disk.Rewrite(t.Context(), s, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// filesInClear returns the files of a directory that have content and no header of an encrypted file.
func filesInClear(t *testing.T, dir string) string {
	t.Helper()
	uses, err := encryption.Uses(vfs.Default, nil, dir)
	if err != nil || len(uses) == 0 {
		t.Fatal(uses, err)
	}
	var out strings.Builder
	for _, u := range uses {
		// Without keys, the test lists the keys of the files as well.
		if u.Key == (encryption.KeyID{}) {
			fmt.Fprintf(&out, "%d files in clear\n", u.Files)
		}
	}
	return cmp.Or(out.String(), "none\n")
}

// runIn executes a command line with DIR replaced by dir, and returns the output, in which varying parts are replaced.
func runIn(t *testing.T, dir, line string) string {
	t.Helper()
	line, in, _ := strings.Cut(strings.ReplaceAll(strings.TrimSpace(line), "DIR", dir), "<")
	var cli Commands
	cli.Start.in = strings.NewReader(in)
	var out bytes.Buffer
	parser, err := kong.New(&cli, kong.BindTo(&out, (*io.Writer)(nil)))
	if err != nil {
		t.Fatal(err)
	}
	k, err := parser.Parse(strings.Fields(line))
	if err == nil {
		err = k.Run()
	}
	if err != nil {
		fmt.Fprintf(&out, "\nerror: %v\n", err)
	}
	text := strings.ReplaceAll(out.String(), dir, "DIR")
	text = regexp.MustCompile(`recovery [0-9a-f-]{36} of [0-9T:-]+Z`).ReplaceAllString(text, "recovery ID of TIME")
	// When Pebble removes the first log of a new directory depends on its goroutines.
	text = regexp.MustCompile(`[0-9]{6}\.log`).ReplaceAllString(text, "NUMBER.log")
	text = regexp.MustCompile(`\([0-9]+ files need`).ReplaceAllString(text, "(N files need")
	text = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`).ReplaceAllString(text, "ID")
	return text
}

// makeNode creates the data directory of a member of a ring of six nodes in two data centers. Members 1 to 5 vote.
// Entries 8 to 10 of the log create keyspaces; the commit index is 8.
func makeNode(t *testing.T, dir string, number int, last, term uint64) {
	t.Helper()
	raftDir := filepath.Join(dir, datadir.Metadata)
	if err := datadir.MakeDurable(vfs.Default, raftDir); err != nil {
		t.Fatal(err)
	}
	l, err := raftlog.Open(raftDir, vfs.Default, slog.New(slog.DiscardHandler), func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	m := ringOfSix(t)
	data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	id, err := (&identity.Identity{Host: ring.HostID{byte(number)}, Disk: [16]byte{byte(number)},
		Node: ring.NodeID(number)}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.SaveIdentity(id); err != nil {
		t.Fatal(err)
	}
	rd := &raft.Ready{HardState: &pb.HardState{Term: &term, Commit: proto.Uint64(8)},
		Snapshot: &pb.Snapshot{Data: data, Metadata: &pb.SnapshotMetadata{Index: proto.Uint64(7), Term: proto.Uint64(1),
			ConfState: &pb.ConfState{Voters: []uint64{1, 2, 3, 4, 5}, Learners: []uint64{6}}}}}
	for i := uint64(8); i <= last; i++ {
		c := &metadata.Command{ID: metadata.CommandID{byte(i)}, Schema: &metadata.SchemaChange{
			Change: schema.EncodeChange(&schema.CreateKeyspace{Keyspace: fmt.Sprintf("ks%d", i), DurableWrites: true,
				Replication: ring.NewNetworkTopology(ring.DatacenterFactor{Datacenter: "dc1", Factor: 3},
					ring.DatacenterFactor{Datacenter: "dc2", Factor: 3})})}}
		b, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		rd.Entries = append(rd.Entries, &pb.Entry{Index: proto.Uint64(i), Term: proto.Uint64(1), Data: b})
	}
	if err := l.Save(rd); err != nil {
		t.Fatal(err)
	}
}

// ringOfSix returns the metadata after entry 7.
func ringOfSix(t *testing.T) *metadata.Metadata {
	t.Helper()
	m, err := metadata.Apply(metadata.Empty(), &metadata.Command{ID: metadata.CommandID{1},
		Found: &metadata.Found{Cluster: "c", Secret: []byte("secret")}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(6) {
		dc := "dc1"
		if i >= 3 {
			dc = "dc2"
		}
		spec := metadata.NodeSpec{Host: ring.HostID{byte(i + 1)}, Disk: [16]byte{byte(i + 1)}, Datacenter: dc,
			Rack:      "r1",
			Internode: netip.MustParseAddrPort(fmt.Sprintf("127.0.0.%d:7000", i+1)),
			Native:    netip.MustParseAddrPort(fmt.Sprintf("127.0.0.%d:9042", i+1)), NumTokens: 1}
		m, err = metadata.Apply(m, &metadata.Command{ID: metadata.CommandID{byte(i + 2)},
			Admit: &metadata.Admit{Node: spec, Tokens: []ring.Token{ring.Token(i * 1000)},
				Epoch: m.Topology.Epoch()}}, i+2)
		if err != nil {
			t.Fatal(err)
		}
	}
	return m
}
