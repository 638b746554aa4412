package simulation

import (
	"fmt"
	"strconv"
	"time"

	"cqld/paxos"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/kernel"
	"cqld/simulation/texttable"
)

// bank is the workload: conditional changes transfer money between the accounts of a partition, and the sum that a read
// at SERIAL returns must be constant. A transfer changes two rows of one partition, which must be atomic; a change of
// one row alone shows as a wrong sum.
type bank struct {
	clients
	table *schema.Table
	tried int
	acked int
}

const (
	// bankEach is the initial balance of each account. No transfer makes a balance negative.
	bankAccounts = 4
	bankEach     = 100
	// All clients change the same partition, so rounds of Paxos contend.
	bankClients = 3
	// bankOpenings is the number of attempts to write the accounts.
	bankOpenings = 10
)

func newBank(c *Cluster) *bank {
	return &bank{clients: newClients(c, "bank"), table: c.table("bank")}
}

// open writes the accounts. If timeouts are short, it may need several attempts. It repeats only with the point
// early-timeout, where a write may time out although every replica has it.
func (w *bank) open(l *process, m *row.Mutation, attempts int, done func(error)) {
	l.write(m, ring.All, func(err error) {
		if err != nil && attempts > 1 && w.c.options.at("early-timeout") {
			w.open(l, m, attempts-1, done)
			return
		}
		done(err)
	})
}

// start writes all accounts at once, and starts the clients. The accounts are written before any client starts, because
// a missing account would be a wrong sum.
func (w *bank) start() {
	w.purges(w.table, func(*kernel.Stream) row.PartitionKey { return w.key() })
	w.c.must(w.c.present()[0], "opening the bank", func(l *process, done func(error)) {
		m := &row.Mutation{}
		m.Reset(w.table.StorageID, w.key())
		// Ballots are timestamps of the nodes' clocks: a timestamp of order could be later than the ballots of the
		// first changes, which it would hide.
		stamp := l.hlc.Next()
		for i := range bankAccounts {
			m.AddRow(texttable.Row(w.table, strconv.Itoa(i), strconv.Itoa(bankEach), stamp))
		}
		w.open(l, m, bankOpenings, done)
	})
	w.launch(bankClients, 120*time.Millisecond, func(l *process, _ int, end func() bool) {
		from, to, amount := w.rand.Intn(bankAccounts), w.rand.Intn(bankAccounts), 1+w.rand.Intn(20)
		// A transfer from an account to itself would write one row twice, so it is a read instead.
		if w.rand.Chance(400) || from == to {
			w.read(l, ring.Serial, func(error) { end() })
			return
		}
		w.transfer(l, from, to, amount, func() { end() })
	})
}

func (w *bank) counts() (tried, acked int) { return w.tried, w.acked }

func (w *bank) key() row.PartitionKey { return row.NewPartitionKey([]byte("bank")) }

func (w *bank) command(l *process) *row.ReadCommand {
	return l.partition(w.table, w.key())
}

// transfer transfers money. The page that the condition received is checked only if its attempt was decided: an attempt
// that other proposers outvote may have read while their changes were reaching the replicas, and has no effect.
func (w *bank) transfer(l *process, from, to, amount int, end func()) {
	w.tried++
	// shown describes the wrong sum in the page of the last attempt, or is empty.
	shown := ""
	l.cas(&paxos.CASRequest{
		Command: w.command(l), Serial: ring.Serial, Consistency: w.commitLevel(), Contention: operationTimeout,
		Timeout: operationTimeout,
		Update: func(page []byte, timestamp int64) (*row.Mutation, bool, error) {
			// A wrong sum is not reported here: this attempt may fail. It is reported if the attempt was decided.
			balances, wrong, err := balancesOf(page)
			if shown = wrong; err != nil || balances[from] < amount {
				return nil, false, err
			}
			m := &row.Mutation{}
			m.Reset(w.table.StorageID, w.key())
			m.AddRow(texttable.Row(w.table, strconv.Itoa(from), strconv.Itoa(balances[from]-amount), timestamp))
			m.AddRow(texttable.Row(w.table, strconv.Itoa(to), strconv.Itoa(balances[to]+amount), timestamp))
			return m, true, nil
		},
	}, func(applied bool, _ []byte, err error) {
		w.c.kernel.Trace(fmt.Sprint("transfer ", from, to, amount, applied, err))
		if err == nil && shown != "" {
			w.c.fail("%s", shown)
		}
		if applied && err == nil {
			w.acked++
		}
		end()
	})
}

// balancesOf returns all accounts in a page, and a description of a wrong sum. wrong is empty for a correct sum, and
// err is of a page that cannot be parsed.
func balancesOf(page []byte) (balances [bankAccounts]int, wrong string, err error) {
	rows, err := texttable.Rows(page, 0)
	if err != nil {
		return balances, "", err
	}
	// A missing account counts as 0, and makes the sum wrong.
	sum := 0
	for _, r := range rows {
		account, err := strconv.Atoi(r[0])
		if err != nil {
			return balances, "", err
		}
		if balances[account], err = strconv.Atoi(r[1]); err != nil {
			return balances, "", err
		}
		sum += balances[account]
	}
	if sum != bankAccounts*bankEach {
		wrong = fmt.Sprintf("bank: the accounts %v hold %d, not %d", balances, sum, bankAccounts*bankEach)
	}
	return balances, wrong, nil
}

// read checks the sum of all accounts at a level. A sum is checked only if the read succeeds: an error may come with
// any state.
func (w *bank) read(l *process, level ring.Consistency, done func(error)) {
	w.tried++
	l.read(w.command(l), level, func(page []byte, err error) {
		if err == nil {
			w.acked++
			var wrong string
			if _, wrong, err = balancesOf(page); wrong != "" {
				w.c.fail("%s", wrong)
			}
		}
		w.c.kernel.Trace(fmt.Sprint("bank ", len(page), err))
		done(err)
	})
}

func (w *bank) readBack() {
	w.c.everywhere("the bank", func(l *process, done func(error)) { w.read(l, ring.Serial, done) })
}

// check does nothing: every read is checked when it ends.
func (w *bank) check() {}
