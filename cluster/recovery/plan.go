package recovery

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"cqld/cluster/identity"
	"cqld/cluster/metadata"
	"cqld/cluster/voters"
	"cqld/ring"
)

// Plan describes a recovery. Nothing is stored until its File is adopted.
type Plan struct {
	Recovery metadata.Recovery
	// Before is the newest metadata of the survivors, and After the metadata with the recovery.
	Before, After *metadata.Metadata
	Survivors     []*ring.Node // by id
	Lost          []*ring.Node // by id
	Voters        []uint64     // of the new cluster, ascending
	// Uncertain are the commands that are used although the survivors do not know that they were committed.
	Uncertain []*metadata.Command
	// Operations are the operations that are aborted because their nodes are lost.
	Operations []*ring.Operation
	base       Position
	position   Position
}

// indexGap is added to the index of the last entry of all survivors. Indices identify operations and former
// replications, so none may be reused, not even indices of entries that only lost voters had. At a thousand commands
// per second, it covers twelve days.
const indexGap = 1 << 30

// Draw contains the external inputs of a recovery: a random id and the time in Unix seconds.
type Draw struct {
	ID metadata.RecoveryID
	At int64
}

// Prepare plans a recovery from own, which must have the newest metadata, and the reports of the other survivors. All
// other members are lost. Unless force is set, it refuses an unnecessary recovery.
func Prepare(own *State, others []*Report, d Draw, force bool) (*Plan, error) {
	report, err := Inspect(own)
	if err != nil {
		return nil, err
	}
	before, err := own.member()
	if err != nil {
		return nil, err
	}
	survivors, err := survivorsOf(before, report, others)
	if err != nil {
		return nil, err
	}
	p := &Plan{Before: before, base: own.last(), Survivors: survivors}
	p.position = Position{own.Hard.GetTerm() + 1, own.last().Index + indexGap}
	committed := own.commit()
	for _, r := range others {
		// own's log has all entries that any of the others knows to be committed.
		committed = max(committed, r.Commit)
		// A survivor must not vote again in a term in which it has voted.
		p.position.Term = max(p.position.Term, r.Term+1)
		p.position.Index = max(p.position.Index, r.Last.Index+indexGap)
	}
	p.Recovery = metadata.Recovery{ID: d.ID, At: d.At, Epoch: p.position.Index}
	for _, n := range before.Topology.Nodes() {
		// Members that an earlier recovery declared lost are already being removed.
		if !slices.Contains(survivors, n) && !before.IsLost(n.ID) {
			p.Lost = append(p.Lost, n)
			p.Recovery.Lost = append(p.Recovery.Lost, metadata.LostMember{Node: n.ID, Host: n.Host})
		}
	}
	// Raft uses the committed voters to elect a leader, which then commits the rest.
	voting := own.voters(own.last().Index)
	if err := needed(slices.Concat(own.voters(committed), voting), survivors); err != nil && !force {
		return nil, err
	}
	p.Voters = chooseVoters(survivors, voting)
	if p.After, err = before.Recover(p.Recovery); err != nil {
		return nil, err
	}
	for _, e := range own.Entries {
		if e.GetIndex() > committed && e.GetType() == pb.EntryNormal && len(e.GetData()) > 0 {
			// member has already decoded these entries successfully.
			if c, err := metadata.DecodeCommand(e.GetData()); err == nil {
				p.Uncertain = append(p.Uncertain, c)
			}
		}
	}
	for _, o := range before.Topology.Operations() {
		if p.After.Topology.Operation(o.ID) == nil {
			p.Operations = append(p.Operations, o)
		}
	}
	return p, nil
}

// survivorsOf returns the surviving members by id, or an error if the reports are inconsistent.
func survivorsOf(m *metadata.Metadata, own *Report, others []*Report) (out []*ring.Node, err error) {
	for _, r := range append([]*Report{own}, others...) {
		switch n := m.NodeByHost(r.Host); {
		case r.Format != reportFormat:
			return nil, fmt.Errorf("recovery: a report of format %d, this build reads %d", r.Format, reportFormat)
		case r.Cluster != own.Cluster:
			return nil, fmt.Errorf("recovery: node %s belongs to another cluster", r.Host)
		case !slices.Equal(r.Recoveries, own.Recoveries):
			return nil, fmt.Errorf("recovery: node %s (%s) and node %s (%s) took part in different recoveries: let "+
				"the one that lacks a recovery take part in it first (cqld recover join)", r.Host, named(r.Recoveries),
				own.Host, named(own.Recoveries))
		case r.Last.Compare(own.Last) > 0:
			return nil, fmt.Errorf("recovery: node %s (%s) has newer metadata, %s, than node %s, %s: start the "+
				"recovery there", r.Host, r.Address, r.Last, own.Host, own.Last)
		case n == nil:
			return nil, fmt.Errorf("recovery: node %s (%s) is not a member", r.Host, r.Address)
		case slices.Contains(out, n):
			return nil, fmt.Errorf("recovery: there are two reports of node %s", r.Host)
		default:
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b *ring.Node) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// named returns the last of a node's recoveries for messages.
func named(ids []metadata.RecoveryID) string {
	if len(ids) == 0 {
		return "never recovered"
	}
	return "recovery " + ids[len(ids)-1].String()
}

// voters returns the voters after the entries up to an index; both sets while they change.
func (s *State) voters(upTo uint64) (sets [][]uint64) {
	conf := s.Snapshot.GetMetadata().GetConfState()
	voting, outgoing := conf.GetVoters(), conf.GetVotersOutgoing()
	for _, e := range s.Entries {
		if e.GetIndex() <= upTo {
			voting, outgoing = changed(voting, outgoing, e)
		}
	}
	sets = [][]uint64{voting}
	if len(outgoing) > 0 {
		sets = append(sets, outgoing)
	}
	return sets
}

// changed returns the voters after an entry. Joint changes of package cluster leave the joint state automatically, by
// an entry without changes.
func changed(voting, outgoing []uint64, e *pb.Entry) (now, before []uint64) {
	var changes []*pb.ConfChangeSingle
	switch e.GetType() {
	case pb.EntryConfChange:
		c := new(pb.ConfChange)
		if proto.Unmarshal(e.GetData(), c) != nil {
			return voting, outgoing
		}
		changes = []*pb.ConfChangeSingle{{Type: c.Type, NodeId: c.NodeId}}
	case pb.EntryConfChangeV2:
		c := new(pb.ConfChangeV2)
		if proto.Unmarshal(e.GetData(), c) != nil {
			return voting, outgoing
		}
		if changes = c.GetChanges(); len(changes) == 0 {
			return voting, nil
		}
		if len(changes) > 1 {
			outgoing = voting
		}
	default:
		return voting, outgoing
	}
	now = slices.Clone(voting)
	for _, c := range changes {
		now = slices.DeleteFunc(now, func(id uint64) bool { return id == c.GetNodeId() })
		if c.GetType() == pb.ConfChangeAddNode {
			now = append(now, c.GetNodeId())
		}
	}
	slices.Sort(now)
	return now, outgoing
}

// errNotNeeded refuses a recovery if the survivors can elect a leader.
var errNotNeeded = errors.New("recovery: a majority of the voters survives: start these nodes instead, and remove " +
	"the others with `cqld ctl removenode`")

// needed returns errNotNeeded if the survivors contain a majority of each set of voters.
func needed(voting [][]uint64, survivors []*ring.Node) error {
	for _, set := range voting {
		n := 0
		for _, s := range survivors {
			if slices.Contains(set, uint64(s.ID)) {
				n++
			}
		}
		if n < len(set)/2+1 {
			return nil
		}
	}
	return errNotNeeded
}

// chooseVoters returns the voters of the new cluster. The result is the same for the same survivors, whichever of them
// makes the plan.
func chooseVoters(survivors []*ring.Node, voting [][]uint64) []uint64 {
	var candidates []voters.Candidate
	for _, n := range survivors {
		candidates = append(candidates, voters.Candidate{ID: uint64(n.ID), Datacenter: n.Datacenter, Rack: n.Rack,
			Votes: slices.Contains(voting[0], uint64(n.ID)), Alive: true})
	}
	return voters.Choose(candidates)
}

// File is a recovered cluster in the form that its members adopt. It contains the metadata including secrets, for
// example salted password hashes of roles.
type File struct {
	Format     int
	Cluster    string // of the Report
	Recoveries []metadata.Recovery
	// Base is the end of the log on which the recovery is based. No survivor has a newer one.
	Base Position
	// Survivors are the members that may adopt the file.
	Survivors []ring.HostID
	Term      uint64
	Snapshot  []byte // protocol buffer
	Sum       string // of the other fields; see Encode
}

// File returns the file of a plan.
func (p *Plan) File() (*File, error) {
	data, err := p.After.Encode()
	if err != nil {
		return nil, err
	}
	conf := &pb.ConfState{Voters: p.Voters}
	f := &File{Format: fileFormat, Cluster: clusterOf(p.Before), Recoveries: p.After.Recoveries, Base: p.base,
		Term: p.position.Term}
	for _, n := range p.Survivors {
		f.Survivors = append(f.Survivors, n.Host)
		if !slices.Contains(p.Voters, uint64(n.ID)) {
			conf.Learners = append(conf.Learners, uint64(n.ID))
		}
	}
	f.Snapshot, err = proto.Marshal(&pb.Snapshot{Data: data, Metadata: &pb.SnapshotMetadata{ConfState: conf,
		Index: proto.Uint64(p.position.Index), Term: proto.Uint64(p.position.Term)}})
	return f, err
}

// ID returns the recovery of the file.
func (f *File) ID() metadata.RecoveryID { return f.Recoveries[len(f.Recoveries)-1].ID }

// Adopted reports whether a node has already adopted the file. It may have run since then.
func (f *File) Adopted(id *identity.Identity) bool {
	return slices.ContainsFunc(id.Recoveries, func(r metadata.Recovery) bool { return r.ID == f.ID() })
}

// lastOf returns the id of the last recovery of a node, or zero. It implies the earlier ones; a node keeps a bounded
// number of them.
func lastOf(all []metadata.Recovery) (id metadata.RecoveryID) {
	if n := len(all); n > 0 {
		id = all[n-1].ID
	}
	return id
}

// Adopt returns the state of a survivor as a member of the recovered cluster. It refuses nodes that are not survivors,
// that have newer metadata, or that took part in another recovery.
func (f *File) Adopt(s *State) (*State, error) {
	m, err := s.member()
	if err != nil {
		return nil, err
	}
	snap := new(pb.Snapshot)
	if err := proto.Unmarshal(f.Snapshot, snap); err != nil {
		return nil, fmt.Errorf("recovery: the file is damaged: %w", err)
	}
	earlier := f.Recoveries[:len(f.Recoveries)-1]
	switch {
	case clusterOf(m) != f.Cluster:
		return nil, fmt.Errorf("recovery: node %s belongs to another cluster than the file", s.Identity.Host)
	case !slices.Contains(f.Survivors, s.Identity.Host):
		return nil, fmt.Errorf("recovery: node %s was declared lost by %s: remove its data directory and let it join "+
			"as a new node", s.Identity.Host, f.Recoveries[len(f.Recoveries)-1].String())
	case lastOf(s.Identity.Recoveries) != lastOf(earlier):
		return nil, fmt.Errorf("recovery: node %s belongs to another recovery of this cluster, and can take part in "+
			"one only", s.Identity.Host)
	case s.last().Compare(f.Base) > 0:
		return nil, fmt.Errorf("recovery: node %s has newer metadata, %s, than the recovered cluster, %s: it has run "+
			"since its report was written", s.Identity.Host, s.last(), f.Base)
	case s.Hard.GetTerm() >= f.Term:
		return nil, fmt.Errorf("recovery: node %s has voted in term %d, the recovered cluster begins with term %d: it "+
			"has run since its report was written", s.Identity.Host, s.Hard.GetTerm(), f.Term)
	}
	next := &State{Identity: s.Identity, Snapshot: snap,
		Hard: &pb.HardState{Term: proto.Uint64(f.Term), Commit: snap.GetMetadata().Index}}
	next.Identity.Recoveries = slices.Clone(f.Recoveries)
	return next, nil
}
