package simulation

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"cqld/auth"
	"cqld/cluster"
)

// roleds is the workload of role changes. Each client is the only one that changes its roles: it creates, alters and
// drops them, grants and revokes permissions and memberships, and lists them at any node. When a change returns, it is
// in force on each node that its coordinator considers alive, and stays in force after restarts: a node that serves
// clients must list the state after that change, or after a later one. A change with an unknown outcome may be applied
// at any later time, so the client continues with new roles.
type roleds struct {
	clients
	pause        time.Duration // of a client between two steps, at most
	parts        []*roledPart  // the one of each client
	all          []*roledPart
	tried, acked int
}

const (
	roledClients = 3
	roledPause   = 100 * time.Millisecond
	roledNames   = 2 // roles of a client
	// roledTimeout is how long a client waits for a change: less than launch waits for a step.
	roledTimeout = operationTimeout + 400*time.Millisecond
)

// roledPart contains the roles of a client, until the outcome of one of their changes is unknown.
type roledPart struct {
	names  [roledNames]string
	states []roledState // after each acknowledged change, the first before all
	// maybe is the state after the change in progress, or after the one with the unknown outcome; nil means none.
	maybe *roledState
	// known is, for each machine, the index of the latest of states that it must have reached.
	known map[*Node]int
}

// roledState is the state of the roles of a client.
type roledState struct {
	// versions are written to an option of each role; zero means that the role does not exist.
	versions [roledNames]int
	login    [roledNames]bool
	granted  [roledNames]bool // permission to change the keyspace
	member   bool             // the first role is granted to the second
}

// roledOption is the option of a role that contains its version.
const roledOption = "version"

// roledKind is the entry of the workload.
func roledKind() workloadKind {
	return workloadKind{name: "roled", make: func(c *Cluster) workload {
		return newRoleds(c, roledClients, roledPause)
	}}
}

func newRoleds(c *Cluster, n int, pause time.Duration) *roleds {
	w := &roleds{clients: newClients(c, "roled"), pause: pause}
	for range n {
		w.parts = append(w.parts, w.newPart())
	}
	return w
}

func (w *roleds) newPart() *roledPart {
	p := &roledPart{states: []roledState{{}}, known: map[*Node]int{}}
	for i := range p.names {
		p.names[i] = fmt.Sprintf("role%d.%d", len(w.all), i)
	}
	w.all = append(w.all, p)
	return p
}

func (w *roleds) start() {
	w.launch(len(w.parts), w.pause, func(l *process, client int, end func() bool) {
		p := w.parts[client]
		if p.maybe == nil && w.rand.Chance(400) {
			w.change(l, p, func(error) { end() })
			return
		}
		w.list(l, p)
		end()
	})
}

func (w *roleds) counts() (tried, acked int) { return w.tried, w.acked }

// last returns the state after the latest acknowledged change.
func (p *roledPart) last() roledState { return p.states[len(p.states)-1] }

// draw returns a change that is possible, and the state after it.
func (w *roleds) draw(p *roledPart) (auth.Change, roledState) {
	s, i := p.last(), w.rand.Intn(roledNames)
	name, resource := p.names[i], auth.Keyspace(keyspace)
	set := auth.NewPermissionSet(auth.Modify)
	settings := func() auth.RoleSettings {
		s.versions[i], s.login[i] = len(p.states), w.rand.Chance(500)
		login := s.login[i]
		return auth.RoleSettings{Login: &login, Options: map[string]string{roledOption: strconv.Itoa(s.versions[i])}}
	}
	both := s.versions[0] > 0 && s.versions[1] > 0
	switch what := w.rand.Intn(10); {
	case s.versions[i] == 0:
		return &auth.CreateRole{Name: name, Settings: settings()}, s
	case what < 2:
		s.versions[i], s.login[i], s.granted[i], s.member = 0, false, false, false
		return &auth.DropRole{Name: name}, s
	case what < 5 && !s.granted[i]:
		s.granted[i] = true
		return &auth.GrantPermissions{Role: name, Resource: resource, Permissions: set}, s
	case what < 5:
		s.granted[i] = false
		return &auth.RevokePermissions{Role: name, Resource: resource, Permissions: set}, s
	case what < 8 && both && !s.member:
		s.member = true
		return &auth.GrantRole{Role: p.names[0], Grantee: p.names[1]}, s
	case what < 8 && both:
		s.member = false
		return &auth.RevokeRole{Role: p.names[0], Grantee: p.names[1]}, s
	default:
		return &auth.AlterRole{Name: name, Settings: settings()}, s
	}
}

// change executes a change. If its outcome is unknown, the client gets new roles.
func (w *roleds) change(l *process, p *roledPart, done func(error)) {
	change, after := w.draw(p)
	p.maybe = &after
	w.tried++
	met := w.c.meetings.Begin(opRoles, 10*operationTimeout)
	ended := false
	returned := func(err error) {
		if ended {
			return
		}
		ended = true
		met()
		w.c.kernel.Trace(fmt.Sprintf("roled %T %v", change, err))
		var invalid *auth.Invalid
		switch {
		case err == nil:
			w.acked++
			p.states, p.maybe = append(p.states, after), nil
			w.noteKnown(l, p)
		case errors.As(err, &invalid):
			w.c.fail("roled: %T of %v is refused: %v", change, p.names, err)
			p.maybe = nil
		default:
			w.parts[slices.Index(w.parts, p)] = w.newPart()
		}
		done(err)
	}
	w.c.kernel.After(roledTimeout, "role change", func() { returned(cluster.ErrUnknownOutcome) })
	l.Soon(func() { l.cluster.StartRoles(change, returned) })
}

// noteKnown records which nodes have a change that has just returned at a process.
func (w *roleds) noteKnown(l *process, p *roledPart) {
	for _, n := range w.c.present() {
		if n.process == nil || !n.process.joined {
			continue
		}
		if id := n.process.Self(); l.Topology().Node(id) != nil && l.Alive(id) {
			p.known[n] = len(p.states) - 1
		}
	}
}

// list compares the roles that a node lists with the states that it may have.
func (w *roleds) list(l *process, p *roledPart) {
	w.tried++
	w.acked++
	got := p.listed(l.cluster.Metadata().Roles)
	if may := p.may(p.known[l.node]); !slices.Contains(may, got) {
		w.c.fail("roled: node %d lists %+v of %v, not one of %+v", l.node.id, got, p.names, may)
	}
}

// may returns the states from the one with an index on.
func (p *roledPart) may(from int) []roledState {
	may := slices.Clone(p.states[from:])
	if p.maybe != nil {
		may = append(may, *p.maybe)
	}
	return may
}

// listed returns the state of the roles in a directory, as LIST ROLES and the checks of permissions see it.
func (p *roledPart) listed(d *auth.Directory) (s roledState) {
	for i, name := range p.names {
		if r, ok := d.Role(name); ok {
			s.versions[i], _ = strconv.Atoi(r.Options[roledOption])
		}
		s.login[i] = d.CanLogin(name)
		s.granted[i] = d.Granted(name, auth.Keyspace(keyspace)).Has(auth.Modify)
	}
	s.member = slices.Contains(d.RolesOf(p.names[1]), p.names[0])
	return s
}

func (w *roleds) readBack() {}

// check compares the roles of all nodes with each other and with the last states.
func (w *roleds) check() {
	want, err := auth.Encode(w.c.metadata().Roles)
	if err != nil {
		w.c.fail("roled: %v", err)
	}
	for _, n := range w.c.present() {
		if n.process == nil {
			continue
		}
		roles := n.process.cluster.Metadata().Roles
		if got, err := auth.Encode(roles); err != nil || !bytes.Equal(got, want) {
			w.c.fail("roled: node %d has roles %s, not %s: %v", n.id, got, want, err)
		}
		for _, p := range w.all {
			if got, may := p.listed(roles), p.may(len(p.states)-1); !slices.Contains(may, got) {
				w.c.fail("roled: node %d has %+v of %v in the end, not one of %+v", n.id, got, p.names, may)
			}
		}
	}
}
