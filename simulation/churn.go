package simulation

import (
	"fmt"
	"time"

	"cqld/schema"
	"cqld/simulation/meetings"
	"cqld/simulation/texttable"
	"cqld/types"
)

// churn is the workload: clients create, alter and drop tables concurrently with all other events. At the end, all
// nodes have the same schema, and it contains the acknowledged changes. The tables stay empty: what is tested is the
// order of changes in the metadata log and their application on every node.
type churn struct {
	clients
	made  []*churned
	tried int
	acked int
}

// churned is the history of a table. made, dropped and widened are set by acknowledgments; dropping and widening when
// the change is sent.
type churned struct {
	name                    string
	made, dropping, dropped bool
	widening, widened       bool
}

func newChurn(c *Cluster) *churn { return &churn{clients: newClients(c, "churn")} }

// Two clients, so that changes of the schema are concurrent.
const churnClients = 2

// start starts the clients, which create a table or change one that exists.
func (w *churn) start() {
	// Each table is created, altered and dropped at most once, so that the acknowledged changes determine its final
	// state.
	w.launch(churnClients, 500*time.Millisecond, func(l *process, _ int, end func() bool) {
		what, n := w.rand.Intn(10), w.rand.Intn(1+len(w.made))
		var t *churned
		if n < len(w.made) {
			t = w.made[n]
		}
		switch {
		case t != nil && what < 3 && t.made && !t.dropping:
			// Set before the outcome is known: from here on, the table may be missing.
			t.dropping = true
			w.change(l, &schema.DropTable{Keyspace: keyspace, Table: t.name, IfExists: true}, &t.dropped, end)
		case t != nil && what < 6 && t.made && !t.dropping && !t.widening:
			t.widening = true
			w.change(l, &schema.AlterTable{Keyspace: keyspace, Table: t.name, AddIfNotExists: true,
				Add: []schema.ColumnSpec{
					{Name: "wide", Kind: schema.Regular, Type: types.Native(types.Text)},
				}}, &t.widened, end)
		default:
			t = &churned{name: fmt.Sprint("churn", len(w.made))}
			w.made = append(w.made, t)
			table := texttable.New(t.name)
			w.change(l, table, &t.made, end)
		}
	})
}

func (w *churn) counts() (tried, acked int) { return w.tried, w.acked }

// change proposes a change, and sets done when every live node has applied it. An acknowledgment means that every live
// node has applied the change, so requests that follow may rely on it.
func (w *churn) change(l *process, change schema.Change, done *bool, end func() bool) {
	w.tried++
	l.Soon(func() {
		met := w.c.meetings.Begin(meetings.SchemaChange, 10*operationTimeout)
		// An error does not mean that the change has no effect: the proposal may still be committed.
		l.cluster.StartSchema(change, func(err error) {
			met()
			w.c.kernel.Trace(fmt.Sprintf("churn %T %v", change, err))
			if err == nil {
				*done = true
				w.acked++
			}
			end()
		})
	})
}

func (w *churn) readBack() {}

// check compares the schemas of all nodes with each other and with the acknowledged changes.
func (w *churn) check() {
	s := w.c.metadata().Schema
	// Changes without an acknowledgment may have been made or not.
	for _, t := range w.made {
		table := s.Table(keyspace, t.name)
		switch {
		// made is set by the acknowledgment only.
		case table == nil && t.made && !t.dropping:
			w.c.fail("churn: table %s was created, but is missing", t.name)
		case table != nil && t.dropped:
			w.c.fail("churn: table %s was dropped, but exists", t.name)
		case table != nil && t.widened && table.Column("wide") == nil:
			w.c.fail("churn: the change of table %s is missing", t.name)
		}
	}
}
