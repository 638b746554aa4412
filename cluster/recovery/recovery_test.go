package recovery

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"cqld/cluster/identity"
	"cqld/cluster/metadata"
	"cqld/ring"
	"cqld/schema"
)

// logOf returns the log of a cluster of three members in dc1 and three in dc2: entry 1 creates it, entries 2 to 7 admit
// the members, entry 8 is of a new leader, and entries 9 and 10 create a keyspace and another one.
func logOf(t testing.TB) (entries []*pb.Entry) {
	t.Helper()
	m := metadata.Empty()
	add := func(term uint64, c *metadata.Command) {
		e := &pb.Entry{Index: proto.Uint64(uint64(len(entries) + 1)), Term: &term}
		if c != nil {
			c.ID = metadata.CommandID{byte(len(entries) + 1)}
			var err error
			if e.Data, err = c.Encode(); err != nil {
				t.Fatal(err)
			}
			if m, err = metadata.Apply(m, c, e.GetIndex()); err != nil {
				t.Fatal(err)
			}
		}
		entries = append(entries, e)
	}
	add(1, &metadata.Command{Found: &metadata.Found{Cluster: "c", Secret: []byte("secret")}})
	for i := range 6 {
		add(1, &metadata.Command{Admit: &metadata.Admit{Node: spec(i + 1), Tokens: []ring.Token{ring.Token(i * 1000)},
			Epoch: m.Topology.Epoch()}})
	}
	add(2, nil)
	for _, name := range []string{"ks", "other"} {
		add(2, &metadata.Command{Schema: &metadata.SchemaChange{Change: schema.EncodeChange(&schema.CreateKeyspace{
			Keyspace: name, DurableWrites: true, Replication: ring.NewNetworkTopology(
				ring.DatacenterFactor{Datacenter: "dc1", Factor: 3},
				ring.DatacenterFactor{Datacenter: "dc2", Factor: 3})})}})
	}
	return entries
}

// spec describes member number 1 to 6.
func spec(number int) metadata.NodeSpec {
	dc := "dc1"
	if number > 3 {
		dc = "dc2"
	}
	return metadata.NodeSpec{Host: ring.HostID{byte(number)}, Disk: [16]byte{byte(number)}, Datacenter: dc, Rack: "r1",
		Internode: netip.MustParseAddrPort(fmt.Sprintf("127.0.0.%d:7000", number)),
		Native:    netip.MustParseAddrPort(fmt.Sprintf("127.0.0.%d:9042", number)), NumTokens: 1}
}

// stateOf returns the state of a member whose log ends at an index, with the given commit index. Members 1, 2, 3, 4 and
// 5 vote.
func stateOf(t testing.TB, number int, term, last, commit uint64) *State {
	t.Helper()
	entries := logOf(t)[:last]
	// The snapshot covers only the first entry, so the others are applied here.
	m, err := (&State{Entries: entries[:7], Hard: new(pb.HardState), Snapshot: new(pb.Snapshot)}).metadata(7)
	if err != nil {
		t.Fatal(err)
	}
	data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return &State{
		Identity: identity.Identity{Host: ring.HostID{byte(number)}, Disk: [16]byte{byte(number)},
			Node: ring.NodeID(number)},
		Hard: &pb.HardState{Term: &term, Commit: &commit},
		Snapshot: &pb.Snapshot{Data: data, Metadata: &pb.SnapshotMetadata{Index: proto.Uint64(7), Term: proto.Uint64(1),
			ConfState: &pb.ConfState{Voters: []uint64{1, 2, 3, 4, 5}, Learners: []uint64{6}}}},
		Entries: entries[7:],
	}
}

// reportOf returns the report of stateOf.
func reportOf(t testing.TB, number int, term, last, commit uint64) *Report {
	t.Helper()
	r, err := Inspect(stateOf(t, number, term, last, commit))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var draw = Draw{ID: metadata.RecoveryID{1, 2}, At: 1_700_000_000}

// TestNewest chooses among logs as an election would.
func TestNewest(t *testing.T) {
	for _, c := range []struct {
		logs []Position
		want int
	}{
		{[]Position{{1, 5}}, 0},
		{[]Position{{1, 5}, {1, 6}}, 1},
		{[]Position{{2, 4}, {1, 6}}, 0}, // entry 5 of term 1 was never committed
		{[]Position{{1, 6}, {1, 6}}, 0},
		{[]Position{{1, 6}, {2, 3}, {2, 4}}, 2},
	} {
		var reports []*Report
		for _, p := range c.logs {
			reports = append(reports, &Report{Last: p})
		}
		if got := Newest(reports); got != c.want {
			t.Errorf("%v: %d", c.logs, got)
		}
	}
}

// TestRecoveryOfADatacenter recovers three members after the loss of the others, with an entry that the survivors do
// not know to be committed.
func TestRecoveryOfADatacenter(t *testing.T) {
	own := stateOf(t, 4, 2, 10, 9)
	plan, err := Prepare(own, []*Report{reportOf(t, 5, 3, 9, 9), reportOf(t, 6, 2, 9, 8)}, draw, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Survivors) != 3 || len(plan.Lost) != 3 || !slices.Equal(plan.Voters, []uint64{4, 5, 6}) ||
		len(plan.Uncertain) != 1 || plan.Uncertain[0].Schema == nil {
		t.Errorf("%+v", plan)
	}
	if plan.After.Schema.Keyspace("other") == nil {
		t.Error("the last entry was not taken")
	}
	f, err := plan.File()
	if err != nil {
		t.Fatal(err)
	}
	f = recoded(t, f)
	for _, s := range []*State{own, stateOf(t, 5, 3, 9, 9), stateOf(t, 6, 2, 9, 8)} {
		if f.Adopted(&s.Identity) {
			t.Error("adopted before")
		}
		next, err := f.Adopt(s)
		if err != nil {
			t.Fatal(err)
		}
		if !f.Adopted(&next.Identity) || next.Identity.Node != s.Identity.Node || next.Hard.GetTerm() != 4 ||
			next.Hard.GetVote() != 0 || next.Hard.GetCommit() != next.Snapshot.GetMetadata().GetIndex() ||
			len(next.Entries) != 0 {
			t.Errorf("%+v", next)
		}
		r, err := Inspect(next)
		if err != nil || len(r.Recoveries) != 1 || r.Epoch != plan.Recovery.Epoch {
			t.Errorf("%+v, %v", r, err)
		}
		// It can vote now with the others, and needs no second recovery.
		if _, err := Prepare(next, nil, Draw{ID: metadata.RecoveryID{9}}, false); err != nil {
			t.Errorf("one of three can be recovered again: %v", err)
		}
	}
}

// TestCommitKnownToAnotherSurvivor plans a recovery with entries that only another survivor knows to be committed.
func TestCommitKnownToAnotherSurvivor(t *testing.T) {
	for _, c := range []struct {
		commit uint64
		want   int
	}{{9, 1}, {10, 0}} {
		plan, err := Prepare(stateOf(t, 4, 2, 10, 9), []*Report{reportOf(t, 5, 2, 10, c.commit)}, draw, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Uncertain) != c.want {
			t.Errorf("commit %d: %d changes in doubt", c.commit, len(plan.Uncertain))
		}
	}
}

// TestVotersThatAreNotCommitted recovers two of four voters whose log ends with the removal of a third one: without its
// commit, they cannot elect a leader.
func TestVotersThatAreNotCommitted(t *testing.T) {
	b, err := proto.Marshal(&pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{
		{Type: pb.ConfChangeRemoveNode.Enum(), NodeId: proto.Uint64(1)}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		commit uint64
		needed bool
	}{{9, true}, {10, false}} {
		own := stateOf(t, 4, 2, 10, c.commit)
		own.Snapshot.Metadata.ConfState.Voters = []uint64{1, 2, 4, 5}
		last := own.Entries[len(own.Entries)-1]
		last.Type, last.Data = pb.EntryConfChangeV2.Enum(), b
		_, err := Prepare(own, []*Report{reportOf(t, 5, 2, 9, 9)}, draw, false)
		if (err == nil) != c.needed {
			t.Errorf("commit %d: %v", c.commit, err)
		}
	}
}

// TestManyRecoveries recovers a node more often than the metadata list.
func TestManyRecoveries(t *testing.T) {
	s := stateOf(t, 4, 2, 9, 9)
	for i := range 40 {
		plan, err := Prepare(s, nil, Draw{ID: metadata.RecoveryID{byte(i + 1)}}, true)
		if err != nil {
			t.Fatal(err)
		}
		f, err := plan.File()
		if err != nil {
			t.Fatal(err)
		}
		if s, err = f.Adopt(s); err != nil {
			t.Fatalf("recovery %d: %v", i+1, err)
		}
	}
}

// recoded returns a file as another machine reads it.
func recoded(t *testing.T, f *File) *File {
	t.Helper()
	b, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, damaged := range [][]byte{b[:len(b)-1], []byte(strings.Replace(string(b), `"Term":`, `"Term":1`, 1)), {}} {
		if _, err := DecodeFile(damaged); err == nil {
			t.Error("a damaged file was read")
		}
	}
	if f, err = DecodeFile(b); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestPrepareRefuses refuses inconsistent reports, and unnecessary recoveries.
func TestPrepareRefuses(t *testing.T) {
	other := reportOf(t, 5, 2, 9, 9)
	other.Cluster = "another"
	recovered := reportOf(t, 5, 2, 9, 9)
	recovered.Recoveries = []metadata.RecoveryID{{5}}
	unknown := reportOf(t, 5, 2, 9, 9)
	unknown.Host = ring.HostID{77}
	majority := []*Report{reportOf(t, 2, 2, 9, 9), reportOf(t, 3, 2, 9, 9)}
	for name, c := range map[string]struct {
		own    *State
		others []*Report
		force  bool
		want   string
	}{
		"a newer report":        {stateOf(t, 4, 2, 9, 9), []*Report{reportOf(t, 5, 2, 10, 9)}, false, "newer metadata"},
		"another cluster":       {stateOf(t, 4, 2, 9, 9), []*Report{other}, false, "another cluster"},
		"another recovery":      {stateOf(t, 4, 2, 9, 9), []*Report{recovered}, false, "different recoveries"},
		"a report twice":        {stateOf(t, 4, 2, 9, 9), []*Report{reportOf(t, 4, 2, 9, 9)}, false, "two reports"},
		"no member":             {stateOf(t, 4, 2, 9, 9), []*Report{unknown}, false, "not a member"},
		"a majority":            {stateOf(t, 1, 2, 9, 9), majority, false, "a majority"},
		"a majority, forced":    {stateOf(t, 1, 2, 9, 9), majority, true, ""},
		"a single voter":        {stateOf(t, 1, 2, 9, 9), nil, false, ""},
		"a single learner":      {stateOf(t, 6, 2, 9, 9), nil, false, ""},
		"all, without a quorum": {stateOf(t, 1, 2, 9, 9), []*Report{reportOf(t, 6, 2, 9, 9)}, false, ""},
	} {
		_, err := Prepare(c.own, c.others, draw, c.force)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAdoptRefuses refuses nodes that must not take part in a recovery.
func TestAdoptRefuses(t *testing.T) {
	prepare := func(id byte, own *State, others ...*Report) *File {
		plan, err := Prepare(own, others, Draw{ID: metadata.RecoveryID{id}}, true)
		if err != nil {
			t.Fatal(err)
		}
		f, err := plan.File()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := prepare(1, stateOf(t, 4, 2, 9, 9), reportOf(t, 5, 2, 9, 9))
	second := prepare(2, stateOf(t, 4, 2, 9, 9), reportOf(t, 5, 2, 9, 9))
	adopted, err := second.Adopt(stateOf(t, 5, 2, 9, 9))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		s    *State
		want string
	}{
		"a lost node":            {stateOf(t, 1, 2, 9, 9), "declared lost"},
		"a member not listed":    {stateOf(t, 6, 2, 9, 9), "declared lost"},
		"newer metadata":         {stateOf(t, 5, 2, 10, 10), "newer metadata"},
		"another recovery":       {adopted, "another recovery"},
		"a later term":           {stateOf(t, 5, 3, 9, 9), "has voted"},
		"a node without cluster": {&State{Hard: new(pb.HardState), Snapshot: new(pb.Snapshot)}, "never a member"},
	} {
		if _, err := f.Adopt(c.s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTwoRecoveriesShareNoMajority makes two plans from the same survivors: they have the same voters, so each survivor
// can vote in only one of the two clusters.
func TestTwoRecoveriesShareNoMajority(t *testing.T) {
	a, err := Prepare(stateOf(t, 4, 2, 9, 9), []*Report{reportOf(t, 5, 2, 9, 9), reportOf(t, 6, 2, 9, 9)}, draw, false)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Prepare(stateOf(t, 6, 2, 9, 9), []*Report{reportOf(t, 5, 2, 9, 9), reportOf(t, 4, 2, 9, 9)}, draw, false)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a.Voters, b.Voters) {
		t.Errorf("%v and %v", a.Voters, b.Voters)
	}
}

// TestVotersAfterEntries follows changes of Raft's membership in the log.
func TestVotersAfterEntries(t *testing.T) {
	change := func(kinds map[uint64]pb.ConfChangeType) *pb.Entry {
		var c pb.ConfChangeV2
		for _, id := range []uint64{1, 2, 3, 4, 5, 6, 7} {
			if kind, ok := kinds[id]; ok {
				c.Changes = append(c.Changes, &pb.ConfChangeSingle{Type: &kind, NodeId: proto.Uint64(id)})
			}
		}
		b, err := proto.Marshal(&c)
		if err != nil {
			t.Fatal(err)
		}
		return &pb.Entry{Type: pb.EntryConfChangeV2.Enum(), Data: b}
	}
	s := &State{Snapshot: &pb.Snapshot{Metadata: &pb.SnapshotMetadata{ConfState: &pb.ConfState{
		Voters: []uint64{1, 2, 3}}}}}
	s.Entries = []*pb.Entry{change(map[uint64]pb.ConfChangeType{4: pb.ConfChangeAddLearnerNode})}
	if got := fmt.Sprint(s.voters(0)); got != "[[1 2 3]]" {
		t.Error(got)
	}
	s.Entries = append(s.Entries, change(map[uint64]pb.ConfChangeType{4: pb.ConfChangeAddNode,
		1: pb.ConfChangeAddLearnerNode}))
	if got := fmt.Sprint(s.voters(0)); got != "[[2 3 4] [1 2 3]]" {
		t.Error(got)
	}
	s.Entries = append(s.Entries, change(nil))
	if got := fmt.Sprint(s.voters(0)); got != "[[2 3 4]]" {
		t.Error(got)
	}
}

// TestLosses computes the effect of losing nodes on writes at each consistency level.
func TestLosses(t *testing.T) {
	m, err := stateOf(t, 4, 2, 10, 10).member()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		lost []ring.NodeID
		want string
	}{
		{nil, "ONE 1 true, QUORUM 4 true, LOCAL_QUORUM in dc1 2 true, LOCAL_QUORUM in dc2 2 true, ALL 6 true"},
		{[]ring.NodeID{1, 2, 3}, "ONE 0 true, QUORUM 1 false, LOCAL_QUORUM in dc1 0 false, " +
			"LOCAL_QUORUM in dc2 2 true, ALL 3 false"},
		{[]ring.NodeID{1, 2}, "ONE 0 true, QUORUM 2 true, LOCAL_QUORUM in dc1 0 false, LOCAL_QUORUM in dc2 2 true, " +
			"ALL 4 false"},
		{[]ring.NodeID{1, 4}, "ONE 0 true, QUORUM 2 true, LOCAL_QUORUM in dc1 1 true, LOCAL_QUORUM in dc2 1 true, " +
			"ALL 4 false"},
	} {
		losses := Losses(m, c.lost)
		if len(losses) != 2 || losses[0].Keyspace != "ks" || losses[0].Without != 0 {
			t.Fatalf("%+v", losses)
		}
		var levels []string
		for _, l := range losses[0].Levels {
			levels = append(levels, fmt.Sprint(l.Level, " ", l.Kept, " ", l.Served))
		}
		if got := strings.Join(levels, ", "); got != c.want {
			t.Errorf("%v:\n%s, not\n%s", c.lost, got, c.want)
		}
	}
	if l := Losses(m, []ring.NodeID{1, 2, 3, 4, 5, 6}); l[0].Without != l[0].Ranges || l[0].Ranges == 0 {
		t.Errorf("%+v", l[0])
	}
}
