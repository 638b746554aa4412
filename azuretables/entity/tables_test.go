package entity_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cqld/auth"
	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
	"cqld/internal/env"
	"cqld/request"
	"cqld/ring"
	"cqld/schema"
)

func TestTablesAreFoundInAnyCase(t *testing.T) {
	r := newTestRing(t, 1)
	s := r.nodes[0].store
	if names, next, err := s.Tables(anyone(), account, "", nil, 0); len(names) != 0 || next != "" || err != nil {
		t.Error(names, next, err)
	}
	r.create("Bees", "ants", "Cats2", "bats")
	for _, name := range []string{"bees", "BEES", "Bees"} {
		if spelled, ok := s.Exists(account, name); !ok || spelled != "Bees" {
			t.Error(name, spelled, ok)
		}
		if err := s.CreateTable(anyone(), account, name); code(err) != odata.TableAlreadyExists {
			t.Error(name, err)
		}
	}
	list := func(from string, top int) string {
		t.Helper()
		names, next, err := s.Tables(anyone(), account, from, func(name string) bool { return name != "bats" }, top)
		if err != nil {
			t.Error(err)
		}
		return strings.Join(names, " ") + " | " + next
	}
	for _, c := range []struct {
		from string
		top  int
		want string
	}{{"", 0, "ants Bees Cats2 | "}, {"", 2, "ants Bees | Cats2"}, {"Cats2", 2, "Cats2 | "},
		{"", 3, "ants Bees Cats2 | "}, {"b", 1, "Bees | Cats2"}} {
		if got := list(c.from, c.top); got != c.want {
			t.Errorf("from %q, %d: %s, want %s", c.from, c.top, got, c.want)
		}
	}
	if err := s.DeleteTable(anyone(), account, "bEES"); err != nil {
		t.Error(err)
	}
	if err := s.DeleteTable(anyone(), account, "bees"); code(err) != odata.ResourceNotFound {
		t.Error(err)
	}
	if _, err := s.Apply(anyone(), account, "bees", []entity.Operation{op(entity.Insert, "p",
		"r")}); code(err) != odata.TableNotFound {
		t.Error(err)
	}
	if _, err := s.Query(anyone(), account, "bees", &entity.Query{}); code(err) != odata.TableNotFound {
		t.Error(err)
	}
	r.create("BEES")
	if spelled, _ := s.Exists(account, "bees"); spelled != "BEES" {
		t.Error(spelled)
	}
	if page, err := s.Query(anyone(), account, "bees", &entity.Query{}); err != nil || len(page.Entities) != 0 {
		t.Error(page, err)
	}
}

func TestNamesOfTables(t *testing.T) {
	r := newTestRing(t, 1)
	for name, want := range map[string]odata.Code{
		"ab": odata.OutOfRangeInput, strings.Repeat("a", 64): odata.OutOfRangeInput, "": odata.OutOfRangeInput,
		"1abc": odata.InvalidResourceName, "a_b": odata.InvalidResourceName, "tables": odata.InvalidResourceName,
		"Tables": odata.InvalidResourceName,
		"äää":    odata.InvalidResourceName, strings.Repeat("a", 63): "", "abc": "", "a23": "",
	} {
		if err := r.nodes[0].store.CreateTable(anyone(), account, name); code(err) != want {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
	for _, system := range []string{"system", "system_schema", "system_auth"} {
		if err := r.nodes[0].store.CreateTable(anyone(), system, "abc"); code(err) != odata.AuthorizationFailure {
			t.Error(system, err)
		}
	}
}

func TestTablesOfCQLAreThereWhenTheirKeyIs(t *testing.T) {
	r := newTestRing(t, 1)
	r.exec(keyspace, "CREATE TABLE acme.yes (a text, b varchar, PRIMARY KEY (a, b))",
		`CREATE TABLE acme."Upper" (a text, b text, PRIMARY KEY (a, b))`,
		"CREATE TABLE acme.one (a text PRIMARY KEY)", "CREATE TABLE acme.number (a text, b int, PRIMARY KEY (a, b))",
		"CREATE TABLE acme.three (a text, b text, c text, PRIMARY KEY (a, b, c))",
		"CREATE TABLE acme.both (a text, b text, PRIMARY KEY ((a, b)))")
	names, _, err := r.nodes[0].store.Tables(anyone(), account, "", nil, 0)
	if fmt.Sprint(names) != "[Upper yes]" || err != nil {
		t.Error(names, err)
	}
	if err := r.nodes[0].store.CreateTable(anyone(), account, "UPPER"); code(err) != odata.TableAlreadyExists {
		t.Error(err)
	}
	if names, _, err := r.nodes[0].store.Tables(anyone(), "system_schema", "", nil, 0); len(names) != 0 || err != nil {
		t.Error(names, err)
	}
}

func TestRacingCreatesHaveOneWinner(t *testing.T) {
	r := newTestRing(t, 3)
	for round := range 10 {
		var mu sync.Mutex
		var wins []string
		var wg sync.WaitGroup
		for i := range 6 {
			name := fmt.Sprintf("%c%cc%d", "Aa"[i%2], "Bb"[i/3], round)
			wg.Go(func() {
				err := r.nodes[i%3].store.CreateTable(anyone(), account, name)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					wins = append(wins, name)
				} else if code(err) != odata.TableAlreadyExists {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(wins) != 1 {
			t.Fatalf("round %d: %v", round, wins)
		}
		if spelled, _ := r.nodes[0].store.Exists(account, wins[0]); spelled != wins[0] {
			t.Errorf("%s is called %s", wins[0], spelled)
		}
	}
}

func TestReplicationOfANewAccount(t *testing.T) {
	for nodes, want := range map[int]int{1: 1, 3: 3, 5: 4} {
		r := newTestRing(t, nodes)
		r.create("Things")
		if got := r.nodes[0].Schema().Keyspace(account).Replication; got.Class != ring.Simple || got.Factor != want {
			t.Errorf("%d nodes: %+v", nodes, got)
		}
	}
}

// TestPropertiesOfAccountsAndTables checks that concurrent settings of different properties of an account or a table
// both succeed.
func TestPropertiesOfAccountsAndTables(t *testing.T) {
	r := newTestRing(t, 1)
	s := r.nodes[0].store
	set := func(table, name, value string) {
		t.Helper()
		if err := s.SetProperty(anyone(), account, table, name, []byte(value)); err != nil {
			t.Error(err)
		}
	}
	set("", "service", "1") // creates the keyspace
	r.create("Things")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			set("", fmt.Sprint("p", i), fmt.Sprint(i))
			set("things", fmt.Sprint("p", i), fmt.Sprint(i))
		})
	}
	wg.Wait()
	for i := range 8 {
		for _, table := range []string{"", "Things"} {
			if got := string(s.Property(account, table, fmt.Sprint("p", i))); got != fmt.Sprint(i) {
				t.Errorf("p%d of %q is %q", i, table, got)
			}
		}
	}
	if spelled, _ := s.Exists(account, "things"); spelled != "Things" {
		t.Error(spelled)
	}
	if err := s.SetProperty(anyone(), account, "", "service", nil); err != nil ||
		s.Property(account, "", "service") != nil {
		t.Error(err, s.Property(account, "", "service"))
	}
	if err := s.SetProperty(anyone(), account, "nothing", "p", nil); code(err) != odata.TableNotFound {
		t.Error(err)
	}
	if err := s.DeleteTable(anyone(), account, "things"); err != nil {
		t.Error(err)
	}
	r.create("things")
	if got := s.Property(account, "things", "p1"); got != nil {
		t.Errorf("%q of the table before", got)
	}
}

// TestRacingRequestsAddColumns checks that concurrent requests that add properties with the same name but different
// types converge.
func TestRacingRequestsAddColumns(t *testing.T) {
	r := newTestRing(t, 3)
	r.create("Things")
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			for k := range 10 {
				o := op(entity.Insert, "p", fmt.Sprintf("%d-%d", i, k))
				name := fmt.Sprint("v", k)
				if i%2 == 0 {
					o.Entity.Properties = []odata.Property{text(name, "x"), number("n", 1)}
				} else {
					o.Entity.Properties = []odata.Property{number(name, 5), text("n", "y")}
				}
				if _, err := r.nodes[i%3].store.Apply(anyone(), account, "Things", []entity.Operation{o}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	page, err := r.nodes[0].store.Query(anyone(), account, "things", &entity.Query{})
	if err != nil || len(page.Entities) != 120 {
		t.Fatal(err, len(page.Entities))
	}
	for _, e := range page.Entities {
		var i, k int
		if _, err := fmt.Sscanf(e.RowKey, "%d-%d", &i, &k); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`p/%s n:Edm.Int32=1 v%d:Edm.String="x"`, e.RowKey, k)
		if i%2 != 0 {
			want = fmt.Sprintf(`p/%s n:Edm.String="y" v%d:Edm.Int32=5`, e.RowKey, k)
		}
		if got := show(&e); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if columns := len(r.nodes[0].Schema().Table(account, "things").Regulars); columns != 22 {
		t.Errorf("%d columns", columns)
	}
}

// TestOneAlterForATransaction checks that a transaction adds all columns that it needs by one schema change.
func TestOneAlterForATransaction(t *testing.T) {
	r := newTestRing(t, 1)
	r.create("Things")
	r.apply("things", op(entity.Insert, "p", "1", text("a", "x"), number("b", 1)),
		op(entity.Insert, "p", "2", text("c", "x"), number("b", 1)),
		op(entity.Insert, "p", "3", number("a", 1)))
	var names []string
	for _, c := range r.nodes[0].Schema().Table(account, "things").Regulars {
		names = append(names, c.Name)
	}
	if r.alters != 1 || !slices.Equal(names, []string{"a", "a@Edm.Int32", "b", "c"}) {
		t.Error(r.alters, names)
	}
}

func TestColumnsAreLimited(t *testing.T) {
	r := newTestRing(t, 1, func(o *entity.Options) { o.Limits.Columns = 2 })
	r.create("Things")
	r.apply("things", op(entity.Insert, "p", "1", text("a", "x"), number("b", 1)))
	err := r.refuse(odata.InvalidInput, "things", op(entity.Insert, "p", "2", text("c", "x")))
	if !strings.Contains(fmt.Sprint(err), "2 are kept") {
		t.Error(err)
	}
	r.apply("things", op(entity.Insert, "p", "2", text("a", "x")))
	r.refuse(odata.PropertyNameInvalid, "things", op(entity.Insert, "p", "3", text("a@ticks", "x")))
}

// stuck is a Changer that blocks until it is released.
type stuck struct {
	entity.Changer
	entered, leave chan struct{}
}

func (s *stuck) ProposeSchemaFor(ctx context.Context, by auth.Principal, change schema.Change) error {
	if _, ok := change.(*schema.AlterTable); ok {
		s.entered <- struct{}{}
		<-s.leave
	}
	return s.Changer.ProposeSchemaFor(ctx, by, change)
}

// TestWaitingForColumnsEnds checks that a writer waits for another writer's columns no longer than Timeouts.Change, and
// stops if its client disconnects.
func TestWaitingForColumnsEnds(t *testing.T) {
	changer := &stuck{entered: make(chan struct{}), leave: make(chan struct{})}
	waits := 50 * time.Millisecond
	r := newTestRing(t, 1, func(o *entity.Options) {
		changer.Changer, o.Changer, o.Timeouts.Change = o.Changer, changer, waits
	})
	r.create("Things")
	insert := func(ctx context.Context, rowKey string) error {
		_, err := r.nodes[0].store.Apply(&request.Request{Context: ctx, Consistency: ring.Quorum,
			SerialConsistency: ring.Serial}, account, "Things",
			[]entity.Operation{op(entity.Insert, "p", rowKey, text("new", "x"))})
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		if err := insert(context.Background(), "first"); err != nil {
			t.Error(err)
		}
	})
	<-changer.entered
	defer close(changer.leave)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if err := insert(gone, "gone"); !errors.Is(err, context.Canceled) {
		t.Errorf("a disconnected client: %v", err)
	}
	var busy *odata.Error
	if err := insert(context.Background(), "late"); !errors.As(err, &busy) || busy.Code != odata.ServerBusy {
		t.Errorf("after %v: %v", waits, err)
	}
}

// TestColumnsThatOthersAddAreUsed checks that a writer that has waited for another writer's columns uses them without
// another schema change.
func TestColumnsThatOthersAddAreUsed(t *testing.T) {
	changer := &stuck{entered: make(chan struct{}), leave: make(chan struct{})}
	waiting := make(chan struct{}, 3)
	r := newTestRing(t, 1, func(o *entity.Options) {
		changer.Changer, o.Changer, o.Executor = o.Changer, changer,
			o.View.(*testNode).executor(func() env.Waiter { return notifyingWaiter{env.NewChannelWaiter(), waiting} })
	})
	r.create("Things")
	var wg sync.WaitGroup
	insert := func(rowKey string) {
		if _, err := r.nodes[0].store.Apply(anyone(), account, "Things",
			[]entity.Operation{op(entity.Insert, "p", rowKey, text("new", "x"))}); err != nil {
			t.Error(err)
		}
	}
	wg.Go(func() { insert("first") })
	<-changer.entered
	for i := range 3 {
		wg.Go(func() { insert(fmt.Sprint("other", i)) })
	}
	for range 3 {
		<-waiting
	}
	close(changer.leave)
	wg.Wait()
	if r.alters != 1 {
		t.Errorf("%d changes of the schema", r.alters)
	}
}

// notifyingWaiter is a waiter that reports when a goroutine waits.
type notifyingWaiter struct {
	env.Waiter
	waiting chan struct{}
}

func (w notifyingWaiter) Wait() {
	select {
	case w.waiting <- struct{}{}:
	default:
	}
	w.Waiter.Wait()
}

// TestManyWritersWithNewNamesAllSucceed has 64 writers add 64 new names while the first schema change is running: one
// more change adds all of them.
func TestManyWritersWithNewNamesAllSucceed(t *testing.T) {
	const writers = 64
	changer := &stuck{entered: make(chan struct{}), leave: make(chan struct{})}
	waiting := make(chan struct{}, writers)
	r := newTestRing(t, 1, func(o *entity.Options) {
		changer.Changer, o.Changer, o.Executor = o.Changer, changer,
			o.View.(*testNode).executor(func() env.Waiter { return notifyingWaiter{env.NewChannelWaiter(), waiting} })
	})
	r.create("Things")
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			name := fmt.Sprintf("new%02d", i)
			if _, err := r.nodes[0].store.Apply(anyone(), account, "Things",
				[]entity.Operation{op(entity.Insert, fmt.Sprint("p", i), "r", text(name, "x"))}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	<-changer.entered
	for range writers - 1 {
		<-waiting
	}
	go func() {
		for range changer.entered {
		}
	}()
	close(changer.leave)
	wg.Wait()
	close(changer.entered)
	if columns := len(r.nodes[0].Schema().Table(account, "things").Regulars); columns != writers || r.alters != 2 {
		t.Errorf("%d columns by %d changes", columns, r.alters)
	}
}
