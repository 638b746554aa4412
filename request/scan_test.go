package request

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/await"
	"cqld/internal/env"
	"cqld/internal/memory"
	"cqld/internal/model"
	"cqld/row"
	"cqld/scan"
	"cqld/schema"
	"cqld/types"
)

// scanned is a coordinator that reads a random table. Some of its pages end early, and some come from other goroutines.
type scanned struct {
	scripted
	mu       sync.Mutex
	r        *rand.Rand
	table    *model.Table
	short    bool
	slow     bool
	calls    int
	bytes    int
	failAt   int                         // the read with this number fails; 0 means none
	hangs    func(*row.ReadCommand) bool // reports whether a read ends only when it is canceled; optional
	hung     int                         // reads for which hangs was true
	inFlight atomic.Int64
	late     sync.WaitGroup
}

var errScanned = errors.New("the replicas fail")

func (s *scanned) Read(req *coordinator.ReadRequest, done func([]byte, error)) {
	s.mu.Lock()
	s.calls++
	call, cmd := s.calls, *req.Command
	s.table.PageRows, s.table.FilterRows = 0, 0
	if s.short {
		s.table.PageRows, s.table.FilterRows = s.r.IntN(5), s.r.IntN(3)
		if n := uint32(1 + s.r.IntN(3)); s.r.IntN(2) == 0 && (cmd.Limits.Rows == 0 || n < cmd.Limits.Rows) {
			cmd.Limits.Rows = n
		}
	}
	page, here := s.table.Read(&cmd), !s.slow || s.r.IntN(2) == 0
	s.bytes += len(page)
	hangs := s.hangs != nil && s.hangs(&cmd)
	if hangs {
		s.hung++
	}
	s.mu.Unlock()
	s.inFlight.Add(1)
	end := func(page []byte, err error) {
		s.inFlight.Add(-1)
		done(page, err)
		clear(page) // it is valid only during the call
	}
	switch {
	case hangs:
		req.Cancel.OnCancel(func() { end(nil, env.ErrCanceled) })
	case call == s.failAt:
		end(nil, errScanned)
	case here:
		end(page, nil)
	default:
		s.late.Go(func() {
			runtime.Gosched()
			end(page, nil)
		})
	}
}

// scanCase is a random scan: its Reads, and what its user does with the rows.
type scanCase struct {
	t       *testing.T
	r       *rand.Rand
	e       *Executor
	s       *scanned
	reads   []scan.Cursor // templates
	want    []string
	keep    byte // value of the only rows that count; 0 means all
	share   uint32
	pushed  bool // replicas apply share, too
	grouped bool // pages end before a row instead of after one

	// State of one page.
	first int // index in reads
	next  int // index in reads
	begun []int
	at    scan.Position
	head  *Read
	size  int
	got   []string
	stops bool // Begin and Continue end pages at random
}

func newScanCase(t *testing.T, seed uint64) *scanCase {
	r := rand.New(rand.NewPCG(seed, 5))
	table, keys := model.Random(r)
	c := &scanCase{t: t, r: r, s: &scanned{r: rand.New(rand.NewPCG(seed, 6)), table: table, slow: r.IntN(2) == 0}}
	c.e = New(Options{Coordinator: c.s, Clock: &manualClock{}})
	base := scan.Cursor{Command: row.ReadCommand{Table: 1, Slices: model.RandomSlices(r), Reversed: r.IntN(2) == 0,
		Now: model.RandomNow}}
	switch r.IntN(4) {
	case 0:
		base.Command.Filter = &row.Filter{PartitionKey: 1}
		base.Command.Filter.Add(row.Condition{Kind: schema.Regular, Column: model.RandomRegular,
			Operator: row.FilterEqual,
			Type:     types.Native(types.Blob), Values: [][]byte{[]byte("a")}})
	case 1:
		c.keep = 'a'
	case 2:
		base.Command.StaticCounts = true
	}
	if r.IntN(3) == 0 {
		c.share = uint32(1 + r.IntN(3))
		base.PerPartition = c.share
		if c.pushed = c.keep == 0 && r.IntN(2) == 0; c.pushed {
			base.Command.Limits.PerPartition = c.share
		}
	}
	c.grouped = r.IntN(3) == 0
	r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	switch r.IntN(3) {
	case 0: // one cursor for all keys
		base.Keys = append(keys, row.NewPartitionKey([]byte("none")))
		c.reads = append(c.reads, base)
	case 1: // a cursor for each key
		for _, k := range keys {
			base.Keys = []row.PartitionKey{k}
			c.reads = append(c.reads, base)
		}
	default:
		for _, base.Tokens = range model.RandomRanges(r, keys) {
			c.reads = append(c.reads, base)
		}
	}
	c.want = c.answer()
	return c
}

// answer returns the rows of the scan, from reads without limits.
func (c *scanCase) answer() (rows []string) {
	for i := range c.reads {
		x := &c.reads[i]
		cmd := x.Command
		cmd.Limits, cmd.Range.Tokens = row.Limits{}, x.Tokens
		if x.Keys == nil {
			rows = append(rows, c.partitions(&cmd)...)
		}
		for _, cmd.Key = range x.Keys {
			rows = append(rows, c.partitions(&cmd)...)
		}
	}
	return rows
}

func (c *scanCase) partitions(cmd *row.ReadCommand) (rows []string) {
	var p row.PageReader
	var x row.Row
	for p.Reset(c.s.table.Read(cmd)); p.NextPartition(); {
		live, given := false, uint32(0)
		for p.NextRow(&x) {
			if !x.Live(cmd.Now) {
				continue
			}
			live = true
			if (c.share == 0 || given < c.share) && c.counts(&x) {
				given++
				rows = append(rows, rowText(p.Key, &x))
			}
		}
		if !live && cmd.StaticCounts && p.Header.Live(cmd.Now) {
			rows = append(rows, rowText(p.Key, nil))
		}
	}
	return rows
}

func rowText(key row.PartitionKey, x *row.Row) string {
	if x == nil {
		return fmt.Sprintf("%x static", key.Bytes)
	}
	return fmt.Sprintf("%x/%x %s", key.Bytes, x.Clustering, x.Cells[0].Value)
}

// counts reports whether a row is part of the result, if it is live.
func (c *scanCase) counts(x *row.Row) bool { return c.keep == 0 || x.Cells[0].Value[0] == c.keep }

// Next implements Source.
func (c *scanCase) Next() (*Read, error) {
	if c.next == len(c.reads) {
		return nil, nil
	}
	x, from := &Read{}, &c.reads[c.next]
	x.Command, x.Keys, x.Tokens, x.PerPartition = from.Command, from.Keys, from.Tokens, from.PerPartition
	x.Command.Limits.Rows = uint32(c.r.IntN(4))
	if c.next == c.first && !x.Seek(c.at) {
		c.t.Fatalf("the scan cannot continue at %+v", c.at)
	}
	if x.More() {
		c.begun = append(c.begun, c.next)
	}
	c.next++
	return x, nil
}

// Prepare implements Source.
func (c *scanCase) Prepare(req *coordinator.ReadRequest) { req.Timeout = time.Second }

// Begin implements Source.
func (c *scanCase) Begin(r *Read) bool {
	c.head = r
	return !c.stops || c.r.IntN(4) > 0
}

// Continue implements Source.
func (c *scanCase) Continue(r *Read) bool {
	if r != c.head {
		c.t.Error("a Read continues before its turn")
	}
	r.Command.Limits.Rows = uint32(c.r.IntN(4))
	return !c.stops || c.r.IntN(4) > 0
}

// Done implements Source.
func (c *scanCase) Done(r *Read) {
	if r != c.head || r.More() {
		c.t.Error("a Read is done before its turn, or before its end")
	}
	c.begun = c.begun[1:]
}

// Wanted implements Source.
func (c *scanCase) Wanted() int { return c.r.IntN(6) }

// Partition implements Consumer.
func (c *scanCase) Partition(r *Read) {
	if r != c.head {
		c.t.Error("a partition of another Read than the first")
	}
}

// Live implements Consumer.
func (c *scanCase) Live(x *row.Row) bool { return x.Live(model.RandomNow) }

// Row implements Consumer.
func (c *scanCase) Row(r *Read, x *row.Row) (Verdict, error) {
	if x != nil && !c.counts(x) {
		return SkipRow, nil
	}
	if c.grouped && len(c.got) == c.size {
		return StopBefore, nil
	}
	c.got = append(c.got, rowText(r.Reader.Key, x))
	switch {
	case !c.grouped && len(c.got) == c.size:
		return StopAfter, nil
	case c.share > 0 && r.At.Given+1 >= c.share:
		return NextPartition, nil
	}
	return NextRow, nil
}

// page executes a scan from a position, for at most size rows, and checks that it leaves nothing behind.
func (c *scanCase) page(ctx context.Context, first int, at scan.Position, size int) (x *Scan, r *Request, err error) {
	c.first, c.next, c.at, c.size, c.got, c.begun, c.head = first, first, at, size, nil, nil, nil
	r = &Request{Context: ctx}
	x = &Scan{Executor: c.e, Request: r, Source: c, Consumer: c, Cancel: env.NewCancel(ctx), Row: new(row.Row),
		Width: c.r.IntN(4), WidthMax: c.r.IntN(5), WidthBytes: c.r.IntN(1000)}
	calls, size0 := c.s.calls, c.s.bytes
	err = x.Run()
	if n := c.s.inFlight.Load(); n != 0 || x.InFlight() != 0 {
		c.t.Errorf("%d reads are in progress after the end, and %d Reads", n, x.InFlight())
	}
	if r.Cost.Commands != c.s.calls-calls || err == nil && r.Cost.Bytes > c.s.bytes-size0 {
		c.t.Errorf("cost %+v of %d commands with %d bytes", r.Cost, c.s.calls-calls, c.s.bytes-size0)
	}
	c.s.late.Wait()
	return x, r, err
}

// pages executes the scan in pages, to its end.
func (c *scanCase) pages() (all []string) {
	first, at := 0, scan.Position{}
	for range 10_000 {
		size := 1 + c.r.IntN(6)
		x, _, err := c.page(c.t.Context(), first, at, size)
		if err != nil || len(c.got) > size {
			c.t.Fatalf("%v; %d rows of %d", err, len(c.got), size)
		}
		all = append(all, c.got...)
		if len(c.begun) == 0 {
			if x.More() {
				c.t.Error("there is more after the end")
			}
			return all
		}
		if !x.More() && c.begun[0] == len(c.reads)-1 {
			return all
		}
		first, at = c.begun[0], scan.Position{}
		if c.head != nil {
			at = c.head.At
			at.Key.Bytes, at.Clustering = bytes.Clone(at.Key.Bytes), bytes.Clone(at.Clustering)
		}
	}
	c.t.Fatal("the pages do not end")
	return nil
}

// TestPagesOfAScanConcatenateToItsAnswer checks that pages of any size have the rows of reads without limits, in order
// and each once: for keys and ranges, by one Read or several, slices, both directions, limits of rows and of rows in a
// partition, filters of replicas and of the consumer, and any end of a page. A scan without pages has the same rows.
func TestPagesOfAScanConcatenateToItsAnswer(t *testing.T) {
	rows, stopped := 0, 0
	for seed := range uint64(6000) {
		c := newScanCase(t, seed)
		c.s.short = seed%3 > 0
		if c.stops = seed%4 == 3; c.stops {
			stopped++
		}
		got := c.pages()
		if !slices.Equal(got, c.want) {
			t.Fatalf("seed %d: %d Reads, the first %+v, of %d in a partition\n got %q\nwant %q",
				seed, len(c.reads), c.reads[0].Command, c.share, got, c.want)
		}
		c.stops = false
		x, r, err := c.page(t.Context(), 0, scan.Position{}, 1<<30)
		if err != nil || x.More() || !slices.Equal(c.got, c.want) {
			t.Fatalf("seed %d: without pages %q, more %t, %v\nwant %q", seed, c.got, x.More(), err, c.want)
		}
		if r.Cost.Rows < len(c.want) {
			t.Errorf("seed %d: cost %+v of %d rows", seed, r.Cost, len(c.want))
		}
		rows += len(c.want)
	}
	if rows < 20_000 || stopped < 1000 {
		t.Errorf("only %d rows, %d scans with stops", rows, stopped)
	}
}

// TestACanceledScanReleasesEverything checks scans that are canceled, or fail, at each of their reads: they return the
// error, their rows are the beginning of the answer, no read is in progress afterwards, and no goroutine waits for one.
func TestACanceledScanReleasesEverything(t *testing.T) {
	before := runtime.NumGoroutine()
	canceled, failed := 0, 0
	for seed := range uint64(400) {
		for at := 1; at < 200; at++ {
			c := newScanCase(t, seed)
			c.s.short = true
			ctx, cancel := context.WithCancel(t.Context())
			want := errScanned
			if seed%2 == 0 {
				c.s.failAt = at
			} else {
				want = context.Canceled
				c.s.hangs = func(*row.ReadCommand) bool {
					if c.s.calls == at {
						c.s.late.Go(cancel)
					}
					return c.s.calls >= at
				}
			}
			_, _, err := c.page(ctx, 0, scan.Position{}, 1<<30)
			cancel()
			if c.s.calls < at {
				if err != nil || !slices.Equal(c.got, c.want) {
					t.Fatalf("seed %d: %v\n got %q\nwant %q", seed, err, c.got, c.want)
				}
				break
			}
			if !errors.Is(err, want) || len(c.got) > len(c.want) || !slices.Equal(c.got, c.want[:len(c.got)]) {
				t.Fatalf("seed %d, read %d: %v, want %v\n%q is not the beginning of\n%q", seed, at, err, want, c.got,
					c.want)
			}
			if seed%2 == 0 {
				failed++
			} else {
				canceled++
			}
		}
	}
	if canceled < 500 || failed < 500 {
		t.Errorf("only %d canceled and %d failed", canceled, failed)
	}
	if !await.Reached(time.Minute, func() bool { return runtime.NumGoroutine() <= before }) {
		t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
	}
}

// TestAScanStoppedEarlyCancelsWhatItReadAhead checks that a scan that ends with its first Read does not wait for the
// others.
func TestAScanStoppedEarlyCancelsWhatItReadAhead(t *testing.T) {
	stopped := 0
	for seed := range uint64(400) {
		c := newScanCase(t, seed)
		first := &c.reads[0]
		if len(c.reads) < 2 || c.grouped || len((&scanCase{s: c.s, reads: c.reads[:1], keep: c.keep,
			share: c.share}).answer()) == 0 {
			continue // the scan has to wait for another Read
		}
		c.s.slow = true
		c.s.hangs = func(cmd *row.ReadCommand) bool {
			switch {
			case first.Keys != nil:
				return !bytes.Equal(cmd.Key.Bytes, first.Keys[0].Bytes)
			case cmd.SinglePartition():
				return !first.Tokens.Contains(cmd.Key.Token)
			}
			return cmd.Range.Tokens != first.Tokens
		}
		c.next, c.size = 0, 1
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		x := &Scan{Executor: c.e, Request: &Request{Context: ctx}, Source: c, Consumer: c, Cancel: env.NewCancel(ctx),
			Row:   new(row.Row),
			Width: len(c.reads)}
		if err := x.Run(); err != nil || len(c.got) != 1 || c.s.inFlight.Load() != 0 {
			t.Fatalf("seed %d: %v, %q, %d in progress", seed, err, c.got, c.s.inFlight.Load())
		}
		cancel()
		c.s.late.Wait()
		if c.s.hung > 0 {
			stopped++
		}
	}
	if stopped < 20 {
		t.Errorf("only %d scans had read ahead", stopped)
	}
}

// growing is a coordinator whose reads reserve memory while they run, as reads of views do. The first one gets none.
type growing struct {
	*scanned
	t       *testing.T
	account *memory.Account
	reads   int
}

// growingNeeds is how much the first read of growing reserves.
const growingNeeds = 3 << 20

func (g *growing) Read(req *coordinator.ReadRequest, done func([]byte, error)) {
	if g.reads++; g.reads == 1 {
		done(nil, &coordinator.NeedsMemory{Bytes: growingNeeds})
		return
	}
	const more = 1 << 20
	reserved := int64(req.Memory)
	if g.account.Bytes() != reserved || g.reads == 2 && reserved != growingNeeds {
		g.t.Errorf("read %d begins with %d bytes and has %d", g.reads, reserved, g.account.Bytes())
	}
	if !req.Grow(100) || !req.Grow(req.Memory-100) || g.account.Bytes() != reserved {
		g.t.Errorf("read %d has %d bytes, and does not use the %d that are reserved", g.reads, g.account.Bytes(),
			reserved)
	}
	if !req.Grow(more) || g.account.Bytes() != reserved+more {
		g.t.Errorf("read %d has %d bytes, want %d", g.reads, g.account.Bytes(), reserved+more)
	}
	if req.Grow(8 << 20) {
		g.t.Errorf("read %d has more memory than a request may use", g.reads)
	}
	g.scanned.Read(req, done)
}

// TestReadsThatGrowReturnTheirMemory scans with reads that reserve memory while they run. A read that gets too little
// is repeated when there is enough, and its reservation is returned with its page.
func TestReadsThatGrowReturnTheirMemory(t *testing.T) {
	pool := memory.New(memory.Options{Limits: memory.Limits{Bytes: 12 << 20, Reserve: 6 << 20}})
	for seed := range uint64(50) {
		c := newScanCase(t, seed)
		c.size = 1 << 30
		var account memory.Account
		pool.Open(&account, memory.Origin{}, nil)
		g := &growing{scanned: c.s, t: t, account: &account}
		r := &Request{Context: t.Context(), Memory: &account}
		x := &Scan{Executor: New(Options{Coordinator: g, Clock: &manualClock{}}), Request: r, Source: c, Consumer: c,
			Cancel: env.NewCancel(t.Context()), Row: new(row.Row), Grows: true, PageBytes: 1 << 20}
		if err := x.Run(); err != nil || !slices.Equal(c.got, c.want) {
			t.Fatalf("seed %d: %v, %d rows, want %d", seed, err, len(c.got), len(c.want))
		}
		if n := account.Bytes(); n != 0 {
			t.Errorf("seed %d: %d bytes are still reserved", seed, n)
		}
		account.Close()
		c.s.late.Wait()
	}
	if n := pool.Used(); n != 0 {
		t.Errorf("%d bytes are in use after the end", n)
	}
}
